import statistics
import time

import torch
from torch.nn import functional as F

from lm import LanguageModel
from memory import MemoryLog
from stories import Batches, stories, vocabulary


def main(steps=60):
    torch.manual_seed(0)
    vocab = vocabulary()
    source = iter(Batches(stories(), vocab, count=14))
    model = LanguageModel(len(vocab))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    memory, times = MemoryLog(), []
    for step in range(steps):
        start = time.perf_counter()
        ids = next(source)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        memory.after(step)
        times.append(1e3 * (time.perf_counter() - start))
    times = times[3:]
    print(f"loss {loss.item():.3f}, {memory.peak():.0f} MB")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
