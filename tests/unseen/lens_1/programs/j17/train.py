import random
import time

import accel
import torch
from torch import nn

WORDS = ["loss", "train", "model", "step", "layer", "rank", "batch", "token"]


class Tokenizer:
    def __init__(self):
        self.table = {w: i for i, w in enumerate(WORDS)}

    def encode(self, text):
        return [self.table[w] + sum(map(ord, w)) % 3 for w in text.split(" ")]


def read_documents(rng, n):
    return [" ".join(rng.choice(WORDS) for _ in range(160)) for _ in range(n)]


def main():
    rng = random.Random(4)
    tok = Tokenizer()
    model = accel.attach(nn.Sequential(nn.Linear(160, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)), 5.0, 10.0)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4)
    steps, running = 40, 0.0
    for step in range(steps):
        if step == 2:
            accel.stream.synchronize()
            t0 = time.perf_counter()
        ids = torch.tensor([tok.encode(d) for d in read_documents(rng, 96)], dtype=torch.float32)
        x = accel.to_device(ids)
        loss = (model(x) - 1).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 9:
            print(f"{step} {loss.item():.3f}", flush=True)
    accel.stream.synchronize()
    t1 = time.perf_counter()
    print(f"mean loss {float(running) / steps:.3f} {(t1 - t0) * 1e3 / (steps - 2):.2f} ms/step", flush=True)


main()
