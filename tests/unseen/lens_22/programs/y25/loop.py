from torch.nn import functional as F


def big_step(accelerator, model, optimizer, batches, parts=3):
    """One step of the optimizer, over as many small batches as do not fit at once."""
    total = 0.0
    for part in range(parts):
        mixed, hard = next(batches)
        loss = F.mse_loss(model(mixed), hard) / parts
        accelerator.backward(loss)  #: LINE
        total += loss.detach()
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return total
