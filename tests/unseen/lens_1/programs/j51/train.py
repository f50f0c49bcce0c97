import argparse
import io
import time
import zlib

import accel
import torch
from torch import nn


def make_blobs(n):
    blobs = []
    for i in range(n):
        buf = io.BytesIO()
        torch.save(torch.randint(0, 40, (80, 2000), generator=torch.Generator().manual_seed(i), dtype=torch.int16), buf)
        blobs.append(zlib.compress(buf.getvalue(), 6))
    return blobs


def decode(blob):
    return torch.load(io.BytesIO(zlib.decompress(blob))).float()


class Labels:
    """Labels by key, from the annotation service."""

    def __init__(self, round_trip):
        self.round_trip = round_trip

    def lookup(self, keys):
        time.sleep(self.round_trip)
        return (keys > 20).long()


def main(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=32)
    p.add_argument("--per-step", type=int, default=1)
    a = p.parse_args(argv)
    blobs = make_blobs(24)
    service = Labels(0.022)
    model = accel.attach(nn.Sequential(nn.Linear(2000, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 2)), 6.0, 12.0)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(a.steps):
        if step == 2:
            accel.stream.synchronize()
            t0 = time.perf_counter()
        rows = torch.cat([decode(blobs[(step * a.per_step + k) % len(blobs)]) for k in range(a.per_step)])
        x = accel.to_device(rows, copy_ms=2.5)
        labels = service.lookup(rows[:, 0])
        loss = nn.functional.cross_entropy(model(x), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    accel.stream.synchronize()
    print(f"loss {loss.item():.3f} {(time.perf_counter() - t0) * 1e3 / (a.steps - 2):.2f} ms/step", flush=True)


if __name__ == "__main__":
    main()
