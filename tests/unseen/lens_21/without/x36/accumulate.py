from torch.nn import functional as F


def train_step(model, optimizer, text, kind, parts):
    """One step of the optimizer over a batch that is too large to go through at once."""
    optimizer.zero_grad()
    total = 0.0
    for part, (some, right) in enumerate(zip(text.chunk(parts), kind.chunk(parts))):
        model.set_requires_gradient_sync(part == parts - 1)
        model.set_reshard_after_backward(part == parts - 1)
        loss = F.cross_entropy(model(some), right) / parts
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total
