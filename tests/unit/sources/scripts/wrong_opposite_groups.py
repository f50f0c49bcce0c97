import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
one = dist.new_group([0, 1])
two = dist.new_group([0, 1])
x = torch.ones(4)
if rank == 0:
    dist.all_reduce(x, group=one)
    dist.all_reduce(x, group=two)
else:
    dist.all_reduce(x, group=two)
    dist.all_reduce(x, group=one)
dist.destroy_process_group()
