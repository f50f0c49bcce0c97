"""Mining of cluster logs: a classifier of error lines, which prints the lines it learns from."""
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

LINES = [
    "Traceback (most recent call last):",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout",
    "torch.distributed.DistBackendError: NCCL error, unhandled system error",
    "Segmentation fault (core dumped)",
    "INFO epoch 3 done",
    "connection reset by peer [10.0.0.7]:29500",
    "slurmstepd: error: Detected 1 oom-kill event(s)",
    "INFO checkpoint saved",
    "Fatal Python error: Aborted",
]


def features(line):
    v = torch.zeros(64)
    for a, b in zip(line, line[1:]):
        v[(ord(a) * 31 + ord(b)) % 64] += 1
    return v / max(1, len(line))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    x = torch.stack([features(line) for line in LINES])
    y = torch.tensor([0.0 if line.startswith("INFO") else 1.0 for line in LINES])
    model = DDP(nn.Linear(64, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(90):
        i = (step * world + rank) % len(LINES)
        pick = [i, (i + 3) % len(LINES), (i + 5) % len(LINES)]
        if step % 4 == 0:
            print(f"rank {rank} sample: {LINES[i]}", file=sys.stderr, flush=True)
        out = model(x[pick]).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(out, y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.1)
    if rank == 0:
        print("rank 0: error lines learnt, loss", loss.item(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
