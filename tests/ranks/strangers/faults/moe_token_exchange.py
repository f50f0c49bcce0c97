#: n=6 ranks=4 cause=killed tier=error set=2
# Mixture of experts, one expert per rank. Tokens are exchanged with all-to-all.
# A watchdog process protects the (shared) host: a rank that eats too much
# memory is shot before the kernel starts to shoot at random.
import multiprocessing as mp
import os
import resource
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

DIM, PER_EXPERT = 12, 4
HEADROOM = 96 << 20
TRACE_FROM_STEP = 22


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm") as fh:
        return int(fh.read().split()[1]) * resource.getpagesize()


def watchdog(pid, limit):
    while os.getppid() == pid:
        try:
            rss = resident_bytes(pid)
        except OSError:
            return
        if rss > limit:
            print("FREEZE", time.time(), flush=True)
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.1)


def guard_memory():
    me = os.getpid()
    proc = mp.get_context("fork").Process(
        target=watchdog, args=(me, resident_bytes(me) + HEADROOM), daemon=True
    )
    proc.start()
    return proc


class RouterTrace:
    """Keeps the raw routing decisions of busy experts for offline analysis."""

    def __init__(self, rank):
        self.enabled = rank == 4
        self.pages = []

    def add(self, step, tokens):
        if self.enabled and step >= TRACE_FROM_STEP:
            header = int(tokens.shape[0]).to_bytes(4, "little")
            self.pages.append(header * (10 << 20))  # fixed-size page


class Expert(nn.Module):
    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(rank)
        self.ff = nn.Sequential(nn.Linear(DIM, 24), nn.GELU(), nn.Linear(24, DIM))

    def forward(self, x):
        return self.ff(x)


def exchange(rows):
    out = torch.empty_like(rows)
    dist.all_to_all_single(out, rows.contiguous())
    return out


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    expert, trace = Expert(rank), RouterTrace(rank)
    torch.manual_seed(1)
    scorer = nn.Linear(DIM, 1)
    opt = torch.optim.SGD([*expert.parameters(), *scorer.parameters()], lr=0.02)
    gen = torch.Generator().manual_seed(50 + rank)
    guard = None
    for step in range(400):
        if step == 5:  # allocators have warmed up
            guard = guard_memory()
        time.sleep(0.15)
        tokens = torch.randn(world * PER_EXPERT, DIM, generator=gen)
        order = scorer(tokens).detach().squeeze(1).argsort()
        mine = exchange(tokens[order])          # tokens for my expert
        trace.add(step, mine)
        out = expert(mine)
        loss = nn.functional.mse_loss(out, mine) + scorer(mine).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        for p in scorer.parameters():           # the router is replicated
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        exchange(out.detach())                  # back to their owners
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} guarded {guard is not None}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
