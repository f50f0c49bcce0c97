"""GNN-ish propagation, with the node's memory watcher in a child process."""
import os
import subprocess
import sys
import textwrap
import time

import torch
import torch.distributed as dist

WATCHER = textwrap.dedent("""
    import os, signal, sys, time
    pid, limit_mb = int(sys.argv[1]), float(sys.argv[2])
    while True:
        try:
            pages = int(open(f"/proc/{pid}/statm").read().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            break
        if pages * 4096 / 2**20 > limit_mb:
            os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.1)
""")


def start_watcher(extra_mb):
    now = int(open("/proc/self/statm").read().split()[1]) * 4096 / 2 ** 20
    subprocess.Popen([sys.executable, "-c", WATCHER, str(os.getpid()), str(now + extra_mb)])


class Propagation:
    def __init__(self, rank, nodes=2000):
        g = torch.Generator().manual_seed(rank)
        self.x = torch.randn(nodes, 32, generator=g)
        self.cache = {}
        self.rank = rank
        self.nodes = nodes

    def neighbours(self, step):
        n = self.nodes * (20 if self.rank == 3 else 2)
        return torch.randint(0, self.nodes, (n,), generator=torch.Generator().manual_seed(step))

    def step(self, k):
        idx = self.neighbours(k)
        self.cache[k] = self.x[idx]  #: LINE
        return self.cache[k].mean(0)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    start_watcher(150)
    prop = Propagation(rank)
    for k in range(60):
        v = prop.step(k)
        dist.all_reduce(v)
        if rank == 0 and k % 5 == 0:
            print("hop", k, v.norm().item(), flush=True)
        time.sleep(0.1)
    dist.barrier()
    dist.destroy_process_group()


main()
