"""Stops before the allocation ends and saves. Budget in seconds through the command line of the batch job."""
import os
import tempfile
import time

import torch
import torch.distributed as td

BUDGET = float(os.environ.get("BUDGET_S", "6"))


class Clock:
    def __init__(self):
        self.begin = time.monotonic()

    def used(self):
        return time.monotonic() - self.begin


def prepare(rank):
    """index of the local shard; the last shard is on the slow file system"""
    time.sleep(3.0 if rank == 3 else 0.2)
    g = torch.Generator().manual_seed(rank)
    return torch.randperm(4096, generator=g)


def save(model, rank):
    td.barrier()
    if rank == 0:
        with tempfile.TemporaryFile() as fh:
            torch.save(model.state_dict(), fh)
            print("saved", fh.tell(), "bytes", flush=True)


def main():
    td.init_process_group("gloo")
    rank = td.get_rank()
    index = prepare(rank)
    clock = Clock()
    model = torch.nn.Bilinear(16, 16, 4)
    step = 0
    while True:
        if clock.used() > BUDGET:  #: LINE
            print(f"rank {rank}: budget is used up at step {step}", flush=True)
            break
        take = index[(step * 16) % 4096:][:16].float()
        a = (take[:, None] * torch.arange(16)).sin()
        out = model(a, a.flip(-1))
        out.pow(2).mean().backward()
        for p in model.parameters():
            td.all_reduce(p.grad)
            with torch.no_grad():
                p -= 1e-3 * p.grad
            p.grad = None
        step += 1
        time.sleep(0.02)
    save(model, rank)
    td.destroy_process_group()


main()
