import statistics
import time

import torch
from torch.nn import functional as F

from reviews import Reviews


def main(steps=60, batch=48, every=15):
    torch.manual_seed(0)
    model = Reviews()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    texts = torch.randint(0, 4000, (3000, 32))
    truth = torch.stack([texts[:, 0] % 3, texts[:, 1] % 12, texts[:, 2] % 5])
    seen, times = [], []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 3000, (batch,))
        loss = 0.0
        for logits, answer in zip(model(texts[picked]), truth):
            loss = loss + F.cross_entropy(logits, answer[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == every - 1:
            seen.append(loss.item())
        times.append(1e3 * (time.perf_counter() - began))
    print("loss " + " ".join(f"{x:.5f}" for x in seen))
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
