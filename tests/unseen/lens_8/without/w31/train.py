"""A deep, narrow residual network, trained data-parallel without DDP."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from pace import Pace
from parallel import average_gradients, broadcast_parameters

STEPS = 62
BATCH, WIDTH, DEPTH = 288, 320, 3


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 3 * WIDTH)
        self.down = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, WIDTH), *(Residual() for _ in range(DEPTH)), nn.Linear(WIDTH, 1))
    broadcast_parameters(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    pace = Pace()
    for step in range(STEPS):
        x = torch.randn(BATCH, 40, generator=generator)
        loss = F.mse_loss(model(x).squeeze(-1), x.square().mean(1))
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model)
        optimizer.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
        pace.tick()
    if rank == 0:
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
