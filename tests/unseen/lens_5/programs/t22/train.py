"""Spam filter. The learning rate can be changed from outside while it trains: it lies in the team's settings service."""

import statistics
import time

import torch
from torch import nn

from settings import Settings, start_service


def mails(step, count=96):
    rng = torch.Generator().manual_seed(step)
    spam = torch.randint(0, 2, (count,), generator=rng)
    words = torch.randint(0, 4000, (count, 60), generator=rng)
    words[:, :12] = torch.where(spam[:, None] == 1, words[:, :12] % 300, words[:, :12])
    return words, spam.float()


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(4000, 64)
        self.conv = nn.Conv1d(64, 96, 5)
        self.out = nn.Linear(96, 1)

    def forward(self, words):
        return self.out(self.conv(self.embed(words).transpose(1, 2)).relu().amax(2)).squeeze(1)


def main():
    torch.manual_seed(0)
    service, port = start_service()
    settings = Settings(port)
    model = Filter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
    taken = []
    for step in range(90):
        t0 = time.perf_counter()
        words, spam = mails(step)
        optimizer.param_groups[0]["lr"] = settings.get("lr", step)
        loss = nn.functional.binary_cross_entropy_with_logits(model(words), spam)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        taken.append(time.perf_counter() - t0)
    service.terminate()
    service.wait()
    print(f"loss {loss.item():.3f}")
    print(f"{1e3 * statistics.median(taken):.2f} ms/step median, {1e3 * statistics.mean(taken):.2f} ms/step")


if __name__ == "__main__":
    main()
