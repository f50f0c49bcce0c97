import time
from statistics import mean, median

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard

from net import Albertine, masked


def build():
    torch.manual_seed(0)
    model = Albertine()
    fully_shard(model.layer)
    fully_shard(model)
    return model, torch.optim.Adam(model.parameters(), lr=1e-3)


def epoch(model, opt, gen, steps):
    for _ in range(steps):
        ids, want = masked(torch.randint(1, 500, (4, 32), generator=gen), gen)
        out = model(ids)
        F.cross_entropy(out.flatten(0, 1), want.flatten()).backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        yield time.perf_counter()


if __name__ == "__main__":
    dist.init_process_group(backend="gloo")
    me = dist.get_rank()
    model, opt = build()
    ticks = list(epoch(model, opt, torch.Generator().manual_seed(me), 60))
    gaps = [1e3 * (b - a) for a, b in zip(ticks, ticks[1:])][3:]
    if me == 0:
        print("%.2f ms/step median, %.2f ms/step" % (median(gaps), mean(gaps)), flush=True)
    del model, opt
    dist.barrier()
    dist.destroy_process_group()
