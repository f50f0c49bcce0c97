import statistics
import time

import torch
from torch.nn import functional as F

from phrases import Phrases
from seq2seq import Seq2Seq


def main(steps=60, batch=48):
    torch.manual_seed(0)
    phrases, model = Phrases(), Seq2Seq()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    for step in range(steps):
        start = time.perf_counter()
        source, target, wanted = phrases.batch(batch)
        logits = model(source, target)
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
        if step % 30 == 29:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
