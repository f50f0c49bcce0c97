"""A bag of words with attention over padded sentences."""
import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

from corpus import Sentences, collate
from kernels import Mixer

VOCABULARY = 2000
STEPS = 64


class Tagger(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.score = nn.Linear(width, 1)
        self.out = nn.Linear(width, 2)

    def forward(self, ids, mask):
        x = Mixer.apply(self.embed(ids))
        weight = torch.softmax(self.score(x).squeeze(-1) - 1e4 * (1 - mask), dim=1)
        return self.out((x * weight.unsqueeze(-1)).sum(1))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Sentences(STEPS * 24, VOCABULARY), batch_size=24, collate_fn=collate)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    times, last = [], time.perf_counter()
    for ids, mask in loader:
        target = ids[:, 0] % 2
        loss = criterion(model(ids, mask), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
