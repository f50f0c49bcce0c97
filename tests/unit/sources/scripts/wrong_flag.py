import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
flag = torch.tensor([1 if rank == 0 else 0])
dist.broadcast(flag, src=0)
bad = torch.tensor([1.0 if rank == 1 else 0.0])
if flag.item() == 1 and bad.item() == 1.0:
    print("skip the step")
else:
    dist.all_reduce(bad)
dist.barrier()
dist.destroy_process_group()
