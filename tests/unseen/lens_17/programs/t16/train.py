import statistics
import tempfile
import time

import torch
from torch.nn import functional as F
from torch.utils.tensorboard import SummaryWriter

from captions import Captioner, pictures


def main(steps=60, batch=36):
    torch.manual_seed(0)
    model = Captioner()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    g = torch.Generator().manual_seed(3)
    times = []
    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        for step in range(steps):
            began = time.perf_counter()
            regions, line = pictures(batch, g)
            logits = model(regions, line[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), line[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            writer.add_scalar("loss", loss.item(), step)
            writer.add_scalar("norm", norm.item(), step)
            writer.add_scalar("rate", schedule.get_last_lr()[0], step)
            writer.add_histogram("bias", model.out.bias, step)
            times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
