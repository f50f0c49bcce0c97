import torch
import torch.distributed as dist


@torch.no_grad()
def clip(parameters, longest):
    """Shortens the gradients together. Each rank has parts of them; one number travels, and it is needed at once."""
    parts = [p.grad.to_local() for p in parameters]
    whole = torch.stack(torch._foreach_norm(parts)).square().sum()
    dist.all_reduce(whole)
    torch._foreach_mul_(parts, (longest / (whole.sqrt() + 1e-6)).clamp(max=1.0))
