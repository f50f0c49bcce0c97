"""Keyword spotting with accelerate."""
import tempfile

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader

from pace import Pace
from shards import Spectrograms, write_shards

STEPS = 60
BATCH = 16
SHARDS = 20


class Spotter(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.front = nn.Conv1d(40, width, 5, padding=2)
        self.blocks = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(3))
        self.head = nn.Linear(width, 12)

    def forward(self, x):
        x = F.relu(self.front(x))
        for block in self.blocks:
            x = x + F.relu(block(x))
        return self.head(x.mean(-1))


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(5)
    with tempfile.TemporaryDirectory() as folder:
        write_shards(folder, SHARDS, seed=7)
        loader = DataLoader(Spectrograms(folder, SHARDS), batch_size=BATCH, shuffle=True, drop_last=True)
        model = Spotter()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        pace = Pace()
        step = 0
        while step < STEPS:
            for x, y in loader:
                with accelerator.accumulate(model):
                    loss = F.cross_entropy(model(x), y)
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
                if step % 15 == 0:
                    accelerator.print(f"step {step}: {loss.item():.4f}")
                step += 1
                pace.tick()
                if step == STEPS:
                    break
        if accelerator.is_main_process:
            pace.report()
        accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
