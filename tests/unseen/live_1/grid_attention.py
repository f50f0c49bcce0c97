"""2 x 2 grid: rows hold tensor slices, columns hold replicas."""
import torch
import torch.distributed as dist
import torch.nn as nn


class Grid:
    def __init__(self, side):
        self.rank = dist.get_rank()
        self.side = side
        world = dist.get_world_size()
        self.row = self.col = None
        for i in range(side):
            members = list(range(i * side, (i + 1) * side))
            g = dist.new_group(members)
            if self.rank in members:
                self.row = g
        for j in range(side):
            members = list(range(j, world, side))
            g = dist.new_group(members)
            if self.rank in members:
                self.col = g


class SlicedMLP(nn.Module):
    def __init__(self, dim, grid):
        super().__init__()
        self.grid = grid
        self.up = nn.Linear(dim, dim // grid.side)
        self.down = nn.Linear(dim // grid.side, dim, bias=False)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def finish_step(model, out, grid, overflow):
    """sums the partial outputs in the row and the gradients in the column"""
    def outputs():
        dist.all_reduce(out, group=grid.row)

    def grads():
        for p in model.parameters():
            dist.all_reduce(p.grad, group=grid.col)

    plan = [outputs, grads]
    if overflow:
        plan = [grads, outputs]  #: LINE
    for act in plan:
        act()


def main():
    dist.init_process_group("gloo")
    grid = Grid(2)
    torch.manual_seed(grid.rank)
    model = SlicedMLP(16, grid)
    scaler = 2.0 ** 10
    opt = torch.optim.SGD(model.parameters(), 1e-4)
    for step in range(20):
        x = torch.randn(4, 16)
        if step == 9 and grid.rank in (0, 3):
            x[0] *= 1e30
        y = model(x)
        loss = (y ** 2).mean()
        opt.zero_grad()
        (loss * scaler).backward()
        total = sum(p.grad.abs().sum() for p in model.parameters())
        finish_step(model, y.detach().clone(), grid, overflow=not torch.isfinite(total).item())
        opt.step()
        if grid.rank == 0:
            print("step", step, flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
