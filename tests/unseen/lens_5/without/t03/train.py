"""Part-of-speech tagging from a word and its neighbours. We keep a ledger of how hard each word is, for next week's curriculum."""

import statistics
import time

import torch
from torch import nn

from ledger import WordLedger

WORDS, TAGS, LENGTH, BATCH = 3000, 17, 64, 112


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 48)
        self.mix = nn.Sequential(nn.Linear(144, 112), nn.ReLU(), nn.Linear(112, TAGS))

    def forward(self, ids):
        word = self.words(ids)
        return self.mix(torch.cat([word.roll(1, 1), word, word.roll(-1, 1)], 2))


def sentences(step):
    rng = torch.Generator().manual_seed(step)
    ids = torch.randint(0, WORDS, (BATCH, LENGTH), generator=rng)
    return ids, (ids * 7 + ids.roll(1, 1)) % TAGS


def train():
    torch.manual_seed(1)
    tagger = Tagger()
    optimizer = torch.optim.Adam(tagger.parameters(), lr=2e-3)
    ledger = WordLedger(WORDS)
    seconds = []
    for step in range(150):
        t0 = time.perf_counter()
        ids, tags = sentences(step)
        scores = tagger(ids)
        each = nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten(), reduction="none")
        optimizer.zero_grad()
        each.mean().backward()
        optimizer.step()
        ledger.enter(ids.flatten(), each.detach())
        seconds.append(time.perf_counter() - t0)
    print("hardest words:", ledger.hardest(5))
    print(f"{1e3 * statistics.median(seconds):.2f} ms/step median, {1e3 * statistics.mean(seconds):.2f} ms/step")


train()
