import statistics
import tempfile
import time
from argparse import ArgumentParser

import torch
from accelerate import Accelerator
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from mixer import Mixer
from store import Checkpoints


def parse():
    parser = ArgumentParser()
    parser.add_argument("--steps", type=int, default=62)
    parser.add_argument("--batch-size", type=int, default=40)
    parser.add_argument("--save-every", type=int, default=1)  #: LINE
    return parser.parse_args()


def main():
    args = parse()
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    labels = torch.randint(20, (3000,))
    images = torch.randn(20, 3, 32, 32)[labels] + torch.randn(3000, 3, 32, 32)
    loader = DataLoader(TensorDataset(images, labels), args.batch_size, shuffle=True, drop_last=True)
    model = Mixer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(accelerator, folder, args.save_every)
        begin = time.perf_counter()
        for step, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            checkpoints.maybe_save(step, model, optimizer, schedule)
            end = time.perf_counter()
            times.append(1e3 * (end - begin))
            begin = end
            if step + 1 == args.steps:
                break
    times = times[3:]
    accelerator.print(f"loss {loss.item():.3f}")
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    accelerator.end_training()


main()
