"""Ranks take turns at a license file; each holds it for a few seconds."""
import fcntl
import os
import tempfile
import time

import torch
import torch.distributed as dist

PATH = os.path.join(tempfile.gettempdir(), "solver_license_" + os.environ["MASTER_PORT"])


class License:
    def __enter__(self):
        self.fh = open(PATH, "a+")
        fcntl.flock(self.fh, fcntl.LOCK_EX)
        return self

    def __exit__(self, *exc):
        fcntl.flock(self.fh, fcntl.LOCK_UN)
        self.fh.close()


def solve(a, b):
    """the licensed solver; gauss-seidel sweeps"""
    x = torch.zeros_like(b)
    for sweep in range(30):
        for i in range(len(b)):
            x[i] = (b[i] - a[i] @ x + a[i, i] * x[i]) / a[i, i]
        time.sleep(0.1)
    return x


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    g = torch.Generator().manual_seed(rank)
    for case in range(2):
        a = torch.rand(20, 20, generator=g) + 20 * torch.eye(20)
        b = torch.rand(20, generator=g)
        with License():
            x = solve(a, b)
            print(f"rank {rank} case {case} residual {(a @ x - b).norm():.2e}", flush=True)
        dist.all_reduce(x)
        if rank == 0:
            print("case", case, "mean", (x / world).mean().item(), flush=True)
    dist.barrier()
    if rank == 0:
        os.unlink(PATH)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
