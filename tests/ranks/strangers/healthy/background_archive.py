#: n=4 ok set=2
"""Weights are archived by a thread; the training loop takes the same lock when
it swaps in the averaged weights, so it may have to wait for the archive."""
import hashlib
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

ARCHIVE_AT = {18: 16.0, 40: 12.0}   # step -> seconds


class WeightAverage:
    def __init__(self, module):
        self.guard = threading.Condition(threading.Lock())
        self.mean = {k: v.detach().clone() for k, v in module.state_dict().items()}
        self.count = 1

    def absorb(self, module):
        with self.guard:
            self.count += 1
            for k, v in module.state_dict().items():
                self.mean[k] += (v.detach() - self.mean[k]) / self.count
            self.guard.notify_all()

    def digest(self):
        h = hashlib.sha256()
        for k in sorted(self.mean):
            h.update(self.mean[k].numpy().tobytes())
        return h.hexdigest()[:12]


class Archiver:
    """One thread per archive; `close` waits for the ones still running."""

    def __init__(self, average):
        self.average = average
        self.threads = []

    def submit(self, step, seconds):
        t = threading.Thread(target=self._run, args=(step, seconds), name=f"archive-{step}")
        t.start()
        self.threads.append(t)

    def _run(self, step, seconds):
        with self.average.guard:
            # tape robot: must see a consistent set of weights
            for _ in range(int(seconds * 2)):
                time.sleep(0.5)
            name = self.average.digest()
        print(f"step {step}: archived as {name}", flush=True)

    def close(self):
        for t in self.threads:
            t.join()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(33)
    ddp = DDP(nn.Sequential(nn.Linear(10, 20), nn.ELU(), nn.Linear(20, 2)))
    opt = torch.optim.SGD(ddp.parameters(), lr=0.05)
    gen = torch.Generator().manual_seed(rank)
    average = WeightAverage(ddp.module) if rank == 0 else None
    archiver = Archiver(average) if rank == 0 else None

    for step in range(41):
        time.sleep(0.15)
        x = torch.randn(16, 10, generator=gen)
        y = (x.sum(dim=1) > 0).long()
        loss = nn.functional.cross_entropy(ddp(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            average.absorb(ddp.module)
            if step in ARCHIVE_AT:
                if step == min(ARCHIVE_AT):
                    print("FREEZE", time.time(), flush=True)
                archiver.submit(step, ARCHIVE_AT[step])
            if step % 10 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)

    # nobody needs the others any more; rank 0 still has an archive to finish
    dist.barrier()
    dist.destroy_process_group()
    if archiver is not None:
        archiver.close()
    print(f"rank {rank} finished", flush=True)


if __name__ == "__main__":
    main()
