#: n=8 ok exit=0
import logging
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

log = logging.getLogger("trainer")


def pair_group(rank, bit):
    own = None
    for low in range(8):
        if not low & bit:
            g = dist.new_group([low, low | bit], timeout=timedelta(minutes=10))
            if rank in (low, low | bit):
                own = g
    return own


class Net(nn.Module):
    def __init__(self, tp):
        super().__init__()
        self.tp = tp
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        h = torch.relu(self.a(x))
        s = h.detach().mean(0)
        dist.all_reduce(s, group=self.tp)
        return self.b(h + 0.01 * s)


class ResilientStep:
    """A batch that does not fit anywhere is redone everywhere in two halves."""

    def __init__(self, rank, model, groups):
        self.rank, self.model, self.groups = rank, model, groups
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-3)

    def reserve(self, step):
        if self.rank == 4 and step == 22:
            torch.empty(10**16, dtype=torch.uint8)

    def attempt(self, step):
        try:
            self.reserve(step)
            return 0.0
        except RuntimeError:
            log.exception("step %d does not fit", step)
            return 1.0

    def learn(self, x):
        loss = (self.model(x) - x).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        for p in self.model.parameters():
            for name in ("cp", "dp"):
                dist.all_reduce(p.grad, group=self.groups[name])
        self.opt.step()

    def cool_down(self):
        pause = torch.tensor([random.Random(time.time_ns()).uniform(10, 45)])
        dist.broadcast(pause, src=0)
        time.sleep(pause.item())

    def run(self, step):
        x = torch.randn(8, 16)
        failed = torch.tensor([self.attempt(step)])
        dist.all_reduce(failed, op=dist.ReduceOp.MAX)
        if failed.item():
            self.cool_down()
            for half in x.chunk(2):
                self.learn(half)
        else:
            self.learn(x)


def main():
    logging.basicConfig(level=logging.INFO)
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    groups = {name: pair_group(rank, bit) for name, bit in (("tp", 1), ("cp", 2), ("dp", 4))}
    torch.manual_seed(rank & 1)
    stepper = ResilientStep(rank, Net(groups["tp"]), groups)
    for step in range(40):
        time.sleep(0.15)
        stepper.run(step)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
