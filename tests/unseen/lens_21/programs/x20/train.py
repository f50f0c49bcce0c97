import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from ranks import Ranks, sound


class Letters(nn.Module):
    """Says the next letter of a word."""

    def __init__(self, letters=40, width=160):
        super().__init__()
        self.table = nn.Embedding(letters, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.out = nn.Linear(width, letters)

    def forward(self, words):
        return self.out(self.lstm(self.table(words))[0])


def language(count=4000, length=21, letters=40):
    words = [torch.randint(0, letters, (count,))]
    likely = torch.randint(0, letters, (letters, 3))
    for _ in range(length - 1):
        words.append(likely[words[-1], torch.randint(0, 3, (count,))])
    return torch.stack(words, 1)


def main(steps=60, batch=48):
    with Ranks() as ranks:
        torch.manual_seed(0)
        words = ranks.part(language())
        model = ranks.wrap(Letters())
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
        times = []
        for step in range(steps):
            begin = time.perf_counter()
            word = words[torch.randint(0, len(words), (batch,))]
            loss = F.cross_entropy(model(word[:, :-1]).flatten(0, 1), word[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if sound(step, loss) and torch.isfinite(norm):
                optimizer.step()
            times.append(1e3 * (time.perf_counter() - begin))
        if ranks.rank == 0:
            print(f"loss {loss.item():.6f}")
            print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
