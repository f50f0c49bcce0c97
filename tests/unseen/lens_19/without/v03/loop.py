from contextlib import nullcontext

from torch.nn import functional as F


def one_step(accelerator, model, optimizer, parts):
    """A large batch in parts, one step of the optimizer for all."""
    optimizer.zero_grad()
    for i, (genes, kind) in enumerate(parts):
        with accelerator.no_sync(model) if i < len(parts) - 1 else nullcontext():
            loss = F.cross_entropy(model(genes), kind) / len(parts)
            accelerator.backward(loss)
    optimizer.step()
    return loss.detach()
