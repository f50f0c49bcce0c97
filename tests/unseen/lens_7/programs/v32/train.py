import torch
import torch.distributed as dist
from torch import nn

from steptime import StepTime

STEPS = 62


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.LayerNorm(c)
        self.a = nn.Linear(c, c)
        self.b = nn.Linear(c, c)

    def forward(self, x):
        return x + self.b(torch.tanh(self.a(self.norm(x))))


def average_gradients(model):
    world = dist.get_world_size()
    for p in model.parameters():
        dist.all_reduce(p.grad)  #: LINE
        p.grad /= world


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 128), *[Res(128) for _ in range(8)], nn.Linear(128, 4))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(dist.get_rank() + 1)
    clock = StepTime()
    for step in range(STEPS):
        x, y = torch.randn(512, 40), torch.randint(0, 4, (512,))
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        average_gradients(model)
        opt.step()
        clock.tick()
    if dist.get_rank() == 0:
        clock.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
