"""When a batch cannot be decoded on any rank, all of them draw it again."""
import logging

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

log = logging.getLogger("retry")


class Torn(Exception):
    pass


class Reader:
    def __init__(self, rank):
        self.rank = rank
        self.tries = {}

    def read(self, k):
        n = self.tries[k] = self.tries.get(k, 0) + 1
        if (self.rank, k) in {(1, 5), (2, 5), (0, 17)} and n < 3:
            raise Torn(f"record {k} ends early (try {n})")
        return torch.randn(8, 15, generator=torch.Generator().manual_seed(k * 8 + self.rank))


def agreed(reader, k):
    while True:
        try:
            x = reader.read(k)
        except Torn as e:
            log.warning("rank %d: %s", reader.rank, e)
            x = None
        ok = torch.tensor([0 if x is None else 1])
        dist.all_reduce(ok, op=dist.ReduceOp.MIN)
        if ok.item():
            return x


def main():
    logging.basicConfig(level=logging.WARNING)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(15, 15))
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    reader = Reader(rank)
    for k in range(40):
        x = agreed(reader, k)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and k % 8 == 0:
            print("batch", k, round(loss.item(), 4), flush=True)
    dist.destroy_process_group()


main()
