import argparse

import torch
from torch import distributed as td
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class GossipAverager:
    """Two replicas trained on their own data which average weights now and then."""

    def __init__(self, model, peer, every):
        self.model = model
        self.peer = peer
        self.every = every
        self.me = td.get_rank()
        self.buffer = torch.empty_like(parameters_to_vector(model.parameters()))

    def swap(self, mine):
        if self.me < self.peer:
            td.send(mine, dst=self.peer)
            td.recv(self.buffer, src=self.peer)
        else:
            td.recv(self.buffer, src=self.peer)
            td.send(mine, dst=self.peer)
        return self.buffer

    @torch.no_grad()
    def maybe_average(self, step):
        if step % self.every:
            return False
        mine = parameters_to_vector(self.model.parameters()).clone()
        other = self.swap(mine)
        vector_to_parameters((mine + other) / 2, self.model.parameters())
        return True


def problem(seed):
    g = torch.Generator().manual_seed(seed)
    while True:
        x = torch.randn(16, 30, generator=g)
        yield x, (x[:, :3].prod(1, keepdim=True) > 0).float()


def cli():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=12)
    ap.add_argument("--every", type=int, default=4)
    ap.add_argument("--width", type=int, default=256)
    return ap.parse_args()


def main():
    opts = cli()
    td.init_process_group(backend="gloo")
    me = td.get_rank()
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(30, opts.width), nn.ReLU(), nn.Linear(opts.width, 1))
    averager = GossipAverager(model, peer=1 - me, every=opts.every)
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    data = problem(seed=60 + me)
    for step in range(1, opts.steps + 1):
        x, y = next(data)
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        optim.zero_grad()
        loss.backward()
        optim.step()
        if averager.maybe_average(step) and me == 0:
            print(f"step {step}: averaged, loss {loss.item():.3f}", flush=True)
    td.barrier()
    td.destroy_process_group()


if __name__ == "__main__":
    main()
