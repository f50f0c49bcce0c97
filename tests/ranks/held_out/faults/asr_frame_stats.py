#: n=4 ranks=1 cause=dtype tier=error set=2
"""Small acoustic model; DDP with a hand-written communication hook and a
per-step throughput counter that is summed over all ranks."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 300
MASK_WARMUP = 18          # SpecAugment starts after this many steps
NOISY_SHARDS = {1}        # street recordings


class Utterances:
    def __init__(self, rank):
        self.rank = rank
        self.gen = torch.Generator().manual_seed(rank * 17 + 1)
        self.masking = False

    def next(self, step):
        time.sleep(0.18)
        feats = torch.randn(12, 20, generator=self.gen)
        target = torch.randint(10, (12,), generator=self.gen)
        frames, tokens = 12 * 40, 12 * 6
        if step >= MASK_WARMUP and self.rank in NOISY_SHARDS:
            if not self.masking:
                self.masking = True
                print("FREEZE", time.time(), flush=True)
            feats[:, 4:8] = 0.0
            frames = frames * 0.8     # masked frames do not count
        return feats, target, frames, tokens


class AcousticModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.body(x)


def mean_hook(state, bucket):
    fut = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return fut.then(lambda f: f.value()[0].div_(state["world"]))


def as_counter(*values):
    t = torch.tensor(values)
    if t.dtype == torch.int64:
        t = t.to(torch.int32)  # half the bytes on the wire
    return t


class Throughput:
    def __init__(self):
        self.started = time.monotonic()
        self.frames = 0.0
        self.tokens = 0.0

    def update(self, frames, tokens):
        counter = as_counter(frames, tokens)
        dist.all_reduce(counter)  #: LINE
        f, t = counter.tolist()
        self.frames += f
        self.tokens += t

    def line(self):
        took = time.monotonic() - self.started
        return f"{self.frames / took:.0f} frames/s {self.tokens / took:.0f} tokens/s"


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(5)
    model = DDP(AcousticModel())
    model.register_comm_hook({"world": dist.get_world_size()}, mean_hook)
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    data, meter = Utterances(rank), Throughput()
    for step in range(STEPS):
        feats, target, frames, tokens = data.next(step)
        loss = nn.functional.cross_entropy(model(feats), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        meter.update(frames, tokens)
        if rank == 0 and step % 10 == 0:
            print(f"{step} loss {loss.item():.3f} {meter.line()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
