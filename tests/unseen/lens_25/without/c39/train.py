import statistics
import time

import torch

from clouds import Completion, chamfer, vases


def main(steps=60, batch=64):
    torch.manual_seed(0)
    seen, whole = vases(3000)
    model = Completion()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(seen), (batch,))
        guess = model(seen[picked])
        loss = chamfer(guess, whole[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"last loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
