import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

FETCH_S, UPLOAD_S = 0.020, 0.055


def fetch(i):
    """Next shard from the object store."""
    time.sleep(FETCH_S)
    g = torch.Generator().manual_seed(i)
    return torch.randn(256, 160, generator=g), torch.randint(0, 5, (256,), generator=g)


def upload(stats):
    time.sleep(UPLOAD_S)
    return len(stats)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*[nn.Sequential(nn.Linear(160, 160), nn.SiLU()) for _ in range(8)])
        self.head = nn.Linear(160, 5)

    def forward(self, x):
        return self.head(self.body(x))


def main():
    io = ThreadPoolExecutor(max_workers=1)
    uploads = ThreadPoolExecutor(max_workers=1)
    net = Classifier()
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    steps = 40
    ahead = io.submit(fetch, 0)
    for step in range(steps):
        if step == 3:
            t0 = time.perf_counter()
        x, y = ahead.result()
        ahead = io.submit(fetch, step + 1)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        stats = {n: p.grad.abs().max() for n, p in net.named_parameters()}
        if step % 2:
            uploads.submit(upload, stats)
    t1 = time.perf_counter()
    print(f"loss {loss.item():.3f}; {(t1 - t0) / (steps - 3) * 1e3:.2f} ms/step", flush=True)


if __name__ == "__main__":
    main()
