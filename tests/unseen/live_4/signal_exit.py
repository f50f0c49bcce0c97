#!/usr/bin/env python
"""Spot machines: the agent of the node sends SIGTERM, the job saves and leaves."""
import os
import signal
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

leaving = False


def on_term(signum, frame):
    global leaving
    leaving = True


def node_agent(rank):
    """stands in for the provider: one machine of four is taken back"""
    if rank == 2:
        return subprocess.Popen(["sh", "-c", f"sleep 14; kill -TERM {os.getpid()}"])


def save(model, rank):
    path = os.path.join(tempfile.gettempdir(), f"spot-{os.getpid()}.pt")
    torch.save(model.state_dict(), path)
    os.remove(path)
    print(f"rank {rank}: saved, leaving in good order", flush=True)


def main():
    signal.signal(signal.SIGTERM, on_term)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    agent = node_agent(rank)
    torch.manual_seed(0)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(50, 50), torch.nn.ReLU(), torch.nn.Linear(50, 1)))
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for step in range(100000):
        if leaving:  #: LINE
            save(model.module, rank)
            sys.exit(0)  #: LINE
        x = torch.randn(64, 50)
        loss = (model(x) - x.sum(1, keepdim=True)).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 500 == 0:
            print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
