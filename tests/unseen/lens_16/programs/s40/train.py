import statistics

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from loop import epoch
from model import Molecules, Regressor


def main(steps=60, batch=320):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = Regressor()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = DataLoader(Molecules(), batch, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    times = []
    while len(times) < steps:
        loss = epoch(accelerator, model, optimizer, loader, times, steps)
    accelerator.print(f"loss {loss.item():.4f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    accelerator.end_training()


if __name__ == "__main__":
    main()
