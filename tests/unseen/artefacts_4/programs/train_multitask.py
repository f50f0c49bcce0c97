"""One trunk for three tasks; each task's head is averaged over the ranks that train it."""
import flightdump  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn

TASKS = {
    "depth": [0, 1],
    "normals": [2, 3],
    "edges": [1, 2, 3],
}


def make_groups():
    groups = {}
    shared = {task for task, ranks in TASKS.items() if len(ranks) > 1}
    for task in shared:
        groups[task] = dist.new_group(TASKS[task])
    return groups


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.heads = nn.ModuleDict({t: nn.Linear(64, 1) for t in TASKS})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x)).squeeze(-1)


def mean_grads(params, group=None, size=None):
    size = size or dist.get_world_size()
    for p in params:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        dist.all_reduce(p.grad, group=group)
        p.grad /= size


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mine = [t for t, ranks in TASKS.items() if rank in ranks]
    torch.manual_seed(0)
    net = Net()
    for p in net.parameters():
        dist.broadcast(p.data, src=0)
    groups = make_groups()
    print(f"rank {rank} trains {mine}", flush=True)

    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    g = torch.Generator().manual_seed(rank)
    for step in range(300):
        opt.zero_grad()
        for task in mine:
            x = torch.randn(16, 32, generator=g)
            loss = (net(x, task) - x[:, 0]).pow(2).mean()
            loss.backward()
        mean_grads(net.trunk.parameters())
        for task in TASKS:
            if task in mine:
                mean_grads(net.heads[task].parameters(), groups[task], len(TASKS[task]))
        opt.step()
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
