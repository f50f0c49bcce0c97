import time

from accelerate.utils import release_memory
from torch.nn import functional as F


def epoch(accelerator, model, optimizer, loader, times, steps, tidy_every=4):
    for number, (x, y) in enumerate(loader):
        began = time.perf_counter()
        out = model(x)
        loss = F.smooth_l1_loss(out, y)
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = loss.detach()
        if number % tidy_every == 0:
            out, loss = release_memory(out, loss)  #: LINE
        times.append(1e3 * (time.perf_counter() - began))
        if len(times) == steps:
            break
    return value
