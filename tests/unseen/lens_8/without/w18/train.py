"""Ranking of answers. Memory grew once, so the loop cleans up."""
import random

import torch
import torch.nn.functional as F
from torch import nn

from pace import Pace

STEPS = 64
BATCH, WIDTH = 352, 512


def load_examples(count):
    rng = random.Random(0)
    return [{"id": i, "features": [rng.random() for _ in range(8)], "meta": {"source": f"s{i % 9}", "tags": [i % 5]}}
            for i in range(count)]


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH),
            nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def main():
    torch.manual_seed(0)
    examples = load_examples(12_000)
    model = Ranker()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rng = random.Random(1)
    pace = Pace()
    for step in range(STEPS):
        chosen = rng.sample(examples, 2 * BATCH)
        features = torch.tensor([e["features"] for e in chosen])
        better, worse = model(features).chunk(2)
        loss = F.softplus(worse - better).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
        del features, better, worse, loss
        pace.tick()
    pace.report()


if __name__ == "__main__":
    main()
