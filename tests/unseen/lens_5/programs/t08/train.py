"""Chat turns of very different lengths through a compiled transformer (dynamo, eager backend: no C compiler on this host)."""

import statistics
import time

import torch
import torch._dynamo
from torch import nn

from turns import Turns

torch._dynamo.config.recompile_limit = 200


class Reader(nn.Module):
    def __init__(self, vocab=1200, width=96):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.one = nn.TransformerEncoderLayer(width, 4, 256, dropout=0.0, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, ids):
        return self.out(self.one(self.embed(ids)))


def main():
    torch.manual_seed(3)
    reader = Reader()
    fast = torch.compile(reader, backend="eager", dynamic=False)
    optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-3)
    took = []
    for step, ids in enumerate(Turns(batches=40, size=16)):
        t0 = time.perf_counter()
        scores = fast(ids[:, :-1])  #: LINE
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        took.append(time.perf_counter() - t0)
    print(f"loss {loss.item():.3f}")
    print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")


if __name__ == "__main__":
    main()
