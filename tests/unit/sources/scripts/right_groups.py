import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
one = dist.new_group([0, 1])
two = dist.new_group([0, 1])
x = torch.ones(4)
first = dist.all_reduce(x, group=one, async_op=True)
second = dist.all_reduce(x.clone(), group=two, async_op=True)
for work in (first, second) if rank == 0 else (second, first):
    work.wait()
dist.destroy_process_group()
