import os
import time

import torch
from stats import Stats
from torch import nn

stats = Stats()


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up = nn.Linear(d, 3 * d)
        self.down = nn.Linear(3 * d, d)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def main():
    torch.manual_seed(int(os.environ.get("RANK", 0)))
    model = nn.Sequential(*[Block(96) for _ in range(3)])
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    steps = 40
    for step in range(steps):
        if step == 4:
            t0 = time.perf_counter()
        x = torch.randn(128, 96)
        loss = (model(x) - x.flip(1)).square().mean()
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        stats.add("loss", float(loss.detach()))
        stats.add("norm", float(norm))
    print(f"loss {loss.item():.4f} | {(time.perf_counter() - t0) / (steps - 4) * 1e3:.2f} ms/step", flush=True)


if __name__ == "__main__":
    main()
