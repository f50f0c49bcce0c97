"""Two ranks on the backend whose waits return at once; each stops, in its own code, where its FIFO is read.

    RANK=.. WORLD_SIZE=2 MASTER_ADDR=.. MASTER_PORT=.. python device_calls.py FOLDER
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from emberward.sources import cpu_nccl


def values(rank):
    """Every kind of call, each with its value."""
    other, one = 1 - rank, torch.full((2,), float(rank + 1))
    pair = dist.new_group([0, 1], group_desc="pair")
    total, largest, sent = one.clone(), one.clone(), one.clone()
    dist.all_reduce(total)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=pair)
    dist.broadcast(sent, src=1)
    dist.reduce(reduced := one.clone(), 0)
    gathered, parts = torch.zeros(4), [torch.zeros(2), torch.zeros(2)]
    work = dist.all_gather_into_tensor(gathered, one, async_op=True)
    work.wait()
    dist.all_gather(parts, one)
    dist.reduce_scatter_tensor(scattered := torch.zeros(1), one)
    dist.all_to_all_single(turned := torch.zeros(2), one)
    got, batched = torch.zeros(2), torch.zeros(2)
    if rank == 0:
        dist.send(one, 1)
    else:
        dist.recv(got, 0)
    operations = [dist.P2POp(dist.isend, one, other), dist.P2POp(dist.irecv, batched, other)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    found = [t.tolist() for t in (total, largest, sent, gathered, *parts, scattered, turned, batched)]
    assert found == [
        [3, 3], [2, 2], [2, 2], [1, 1, 2, 2], [1, 1], [2, 2], [3], [1, 2], [other + 1] * 2,
    ], found  # fmt: skip
    assert rank == 1 or reduced.tolist() == [3, 3]
    assert rank == 0 or got.tolist() == [1, 1]
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": 0}, {"rank": 1}]
    dist.barrier()


def main(folder):
    cpu_nccl.register()
    dist.init_process_group(cpu_nccl.NAME)
    rank = dist.get_rank()
    values(rank)
    fifo = folder / f"fifo{rank}"
    if rank == 1:
        fifo.read_text()
    dist.all_reduce(five := torch.ones(5))  # rank 0 goes on at once
    fifo.read_text()
    dist.all_reduce(seven := torch.ones(7))
    assert seven.sum() is not None and seven[0].item() == 2  # the host waits
    assert five[0].item() == 2
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
