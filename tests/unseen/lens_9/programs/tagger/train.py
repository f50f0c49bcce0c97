"""Part-of-speech tagging with a bidirectional GRU."""
from time import perf_counter as now

import numpy as np
import torch
from torch import nn

from confusion import ConfusionMatrix

VOCAB, TAGS, B, L = 3000, 17, 48, 44


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 96)
        self.gru = nn.GRU(96, 128, num_layers=1, bidirectional=True, batch_first=True)
        self.out = nn.Linear(256, TAGS)

    def forward(self, words):
        h, _ = self.gru(self.emb(words))
        return self.out(h)


torch.manual_seed(11)
words = torch.randint(0, VOCAB, (40, B, L))
tags = words % TAGS

model = Tagger()
optim = torch.optim.Adam(model.parameters(), lr=2e-3)
lossf = nn.CrossEntropyLoss()
cm = ConfusionMatrix(TAGS)
stamps = [now()]
for step in range(60):
    x, y = words[step % 40], tags[step % 40]
    optim.zero_grad()
    logits = model(x)
    loss = lossf(logits.flatten(0, 1), y.flatten())
    loss.backward()
    optim.step()
    cm.add(logits.detach().argmax(-1), y)
    if step % 20 == 19:
        print(f"step {step + 1}: loss {loss.item():.3f}, accuracy so far {cm.accuracy():.3f}")
    stamps.append(now())

d = np.diff(stamps)[3:] * 1000
print(f"{np.median(d):.2f} ms/step median, {d.mean():.2f} ms/step")
