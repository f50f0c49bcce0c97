import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
bad = torch.tensor([1.0 if rank == 1 else 0.0])
dist.all_reduce(bad)
if bad.item() > 0:
    kept = [None] * dist.get_world_size()
    dist.all_gather_object(kept, {"rank": rank})
    assert [each["rank"] for each in kept] == list(range(dist.get_world_size()))
else:
    dist.barrier()
    dist.barrier()
dist.destroy_process_group()
