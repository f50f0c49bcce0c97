#: n=4 ranks=0 cause=compile|subprocess tier=notice set=2
"""Surrogate model for a stencil solver. After a warm-up rank 0 searches for the
fastest native kernel variant and tells the others which one to use."""
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

TUNE_AT = 20

KERNEL = """
#include <math.h>
#define T {tile}
#define U {unroll}
#define V {vec}
static float w[V][9];
void stencil_{tag}(float *out, const float *in, int n) {{
  for (int i = 1; i < n - 1; i += T)
    for (int j = 1; j < n - 1; j += V)
      for (int t = 0; t < T; ++t)
        for (int v = 0; v < V; ++v) {{
          float acc = 0.f;
          for (int k = 0; k < 9; ++k)
            acc += w[v][k] * sinf(in[(i + t + k / 3 - 1) * n + j + v + k % 3 - 1]);
          out[(i + t) * n + j + v] = fmaf(acc, 1.0f / (U + t), out[(i + t) * n + j + v]);
        }}
}}
"""


class Autotuner:
    def __init__(self):
        self.cc = os.environ.get("CC") or shutil.which("cc") or "gcc"
        self.workdir = tempfile.mkdtemp(prefix="stencil_")

    def search_space(self):
        tiles = range(4, 68)
        unrolls = range(1, 17)
        vecs = (2, 4, 6, 8, 10, 12, 14, 16)
        return itertools.product(tiles, unrolls, vecs)

    def build(self, tile, unroll, vec):
        tag = f"{tile}_{unroll}_{vec}"
        src = os.path.join(self.workdir, f"k_{tag}.c")
        obj = src[:-2] + ".o"
        with open(src, "w") as fh:
            fh.write(KERNEL.format(tile=tile, unroll=unroll, vec=vec, tag=tag))
        flags = ["-O3", "-funroll-all-loops", "-ffast-math", "-c"]
        subprocess.run([self.cc, *flags, src, "-o", obj], check=True)  #: LINE
        size = os.path.getsize(obj)
        os.unlink(src)
        os.unlink(obj)
        return size

    def best(self):
        print("FREEZE", time.time(), flush=True)
        # smaller code has always been faster on our boxes
        return min(self.search_space(), key=lambda variant: self.build(*variant))


def agree_on_kernel(rank):
    choice = [Autotuner().best() if rank == 0 else None]
    dist.broadcast_object_list(choice, src=0)
    return choice[0]


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(1)
    net = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.Tanh(), nn.Conv2d(6, 1, 3, padding=1))
    )
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(rank)
    kernel = None
    for step in range(300):
        if step == TUNE_AT:
            kernel = agree_on_kernel(rank)
        time.sleep(0.17)
        field = torch.randn(2, 1, 16, 16, generator=gen)
        loss = nn.functional.mse_loss(net(field), field.roll(1, dims=-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f} kernel {kernel}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
