import statistics
import time

import torch
from torch import nn

from lessons import Lessons, sums


class Adder(nn.Module):
    def __init__(self, width=112, numbers=20):
        super().__init__()
        self.number = nn.Embedding(numbers, width)
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True, norm_first=True), 2,
            enable_nested_tensor=False,
        )
        self.out = nn.Linear(width, 1)

    def forward(self, numbers):
        return self.out(self.layers(self.number(numbers)).mean(1))[:, 0]


def main(steps=60, batch=64):
    torch.manual_seed(0)
    lessons, model = Lessons(), Adder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        grades = lessons.draw(batch)
        numbers, result = sums(grades)
        losses = (model(numbers) - result).square()
        loss = losses.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            lessons.tell(grades, losses.detach())
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
