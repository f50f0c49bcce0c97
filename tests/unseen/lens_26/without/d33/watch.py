from torch.nn.utils import get_total_norm


def gradient_norm(model):
    """Length of the whole gradient, the same number on every rank."""
    norm = get_total_norm([parameter.grad for parameter in model.parameters()])
    return norm.full_tensor()
