"""Per-rank event traces go through a named pipe to a compressor process."""
import json
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

COMPRESSOR = """
import sys, zlib
out = zlib.compressobj()
with open(sys.argv[1], "rb") as fh:
    budget = int(sys.argv[2])
    while budget > 0:
        chunk = fh.read1(4096)
        if not chunk:
            break
        out.compress(chunk)
        budget -= len(chunk)
    sys.stdin.read()
"""


class Trace:
    def __init__(self, budget):
        self.path = os.path.join(tempfile.mkdtemp(), "trace.fifo")
        os.mkfifo(self.path)
        self.child = subprocess.Popen(
            [sys.executable, "-c", COMPRESSOR, self.path, str(budget)], stdin=subprocess.PIPE
        )
        self.fd = os.open(self.path, os.O_WRONLY)

    def event(self, **kw):
        kw["t"] = time.time()
        kw["pad"] = "x" * 900
        os.write(self.fd, json.dumps(kw).encode() + b"\n")  #: LINE


def budget_of(rank):
    return 60_000 if rank == 1 else 10_000_000


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    trace = Trace(budget_of(rank))
    x = torch.zeros(32)
    for step in range(300):
        trace.event(name="begin", step=step)
        d = torch.randn(32)
        dist.all_reduce(d)
        x += d
        trace.event(name="end", step=step)
        if rank == 0 and step % 20 == 0:
            print("step", step, flush=True)
    os.close(trace.fd)
    trace.child.communicate()
    dist.destroy_process_group()


main()
