import torch
import torch.distributed as dist

from emberward import lanes

dist.init_process_group("gloo")
log = lanes.lane("log", group_ranks=range(dist.get_world_size()))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def total(loss):
    dist.all_reduce(loss, group=log.group)
    return loss


for step in range(3):
    loss = model(torch.ones(2, 4)).sum()
    mean = log.submit(total, lanes.Out(loss.detach().clone()))
    mean.result()
    loss.backward()
    optimizer.step()
    with log:
        dist.all_reduce(torch.ones(1), group=log.group)
    optimizer.zero_grad()
