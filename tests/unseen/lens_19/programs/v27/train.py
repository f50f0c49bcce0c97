import random
import statistics
import time

import torch
from torch.nn import functional as F

from recipes import Alphabet, Recipes


def main(steps=60, batch=24, length=64, show=20):
    torch.manual_seed(0)
    rng = random.Random(0)
    parts = ["cut", "stir", "boil", "salt", "flour", "two", "eggs", "butter", "slowly", "in", "a", "pan", "and", "the"]
    text = " ".join(rng.choice(parts) for _ in range(20000))
    alphabet = Alphabet(text)
    ids = alphabet.encode(text)
    windows = ids.unfold(0, length + 1, 1)
    model = Recipes(len(alphabet.signs))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        rows = windows[torch.randint(0, len(windows), (batch,))]
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % show == show - 1:
            print(f"{loss.item():.5f} {alphabet.decode(rows[0, 1:])!r} {alphabet.decode(logits[0].argmax(-1))!r}")
        times.append(1e3 * (time.perf_counter() - began))
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
