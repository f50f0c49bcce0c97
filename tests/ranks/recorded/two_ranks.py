"""A user's program for two ranks: it uses torch in many ways, knows nothing of us, and ends when it is ended.

    RANK=.. WORLD_SIZE=2 MASTER_ADDR=.. MASTER_PORT=.. python two_ranks.py FOLDER

Rank 0 stops in a regular expression that holds the interpreter; rank 1 waits for it in an all-reduce.
"""

import re
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

FOREVER = re.compile(r"(a+)+$")


def train(rank):
    model = DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (batch,) in DataLoader(TensorDataset(torch.randn(6, 4)), batch_size=2, num_workers=1):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def talk(rank, pair):
    other = 1 - rank
    value = torch.ones(3)
    dist.all_reduce(value, group=pair)
    dist.all_gather([torch.zeros(3), torch.zeros(3)], value)
    total = funcol.all_reduce(value, "sum", pair)
    total = total.view(3, 1) + 1
    work = dist.all_reduce(value, op=dist.ReduceOp.MAX, async_op=True)
    dist.broadcast(torch.zeros(2, dtype=torch.int64), src=1)
    work.wait()
    if rank == 0:
        dist.send(value, 1, tag=5)
    else:
        dist.recv(value, 0, tag=5)
    operations = [dist.P2POp(dist.isend, value, other), dist.P2POp(dist.irecv, torch.zeros(3), other)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    dist.all_gather_object([None, None], {"rank": rank})


def main(folder):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pair = dist.new_group([0, 1], group_desc="pair")
    model = train(rank)
    model.eval()
    talk(rank, pair)
    model.train()
    torch.save({"a": 1}, f"{folder}/save{rank}.pt")
    dist.barrier()
    print("rank", rank, "ready", flush=True)
    if rank == 0:
        FOREVER.match("a" * 60 + "b")  # the interpreter is held
    dist.all_reduce(torch.ones(7))  # rank 1 waits


if __name__ == "__main__":
    main(sys.argv[1])
