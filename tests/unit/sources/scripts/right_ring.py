import torch, torch.distributed as dist

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", rank)
there = torch.full((1000,), float(rank), device=device)
here = torch.empty(1000, device=device)
ops = [
    dist.P2POp(dist.isend, there, (rank + 1) % size),
    dist.P2POp(dist.irecv, here, (rank - 1) % size),
]
for work in dist.batch_isend_irecv(ops):
    work.wait()
assert here[0].item() == (rank - 1) % size
dist.destroy_process_group()
