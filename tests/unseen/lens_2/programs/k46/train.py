import time
import torch
import torch.distributed as dist
from torch import nn
from keeper import Keeper

STEPS = 20


def share(net, world):
    flat = torch.cat([p.grad.flatten() for p in net[2:].parameters()])
    dist.all_reduce(flat)
    i = 0
    for p in net[2:].parameters():
        p.grad.copy_(flat[i:i + p.numel()].view_as(p) / world)
        i += p.numel()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 48), nn.Tanh(), nn.Linear(48, 10))
    net[0].requires_grad_(False)
    extra = torch.zeros(5_000_000)
    net.register_buffer("table", extra)
    opt = torch.optim.Adam((p for p in net.parameters() if p.requires_grad), 1e-3)
    keeper = Keeper(rank, net, opt)
    start = time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(8, 256)
        y = torch.randint(0, 10, (8,))
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        time.sleep(0.06)
        share(net, world)
        opt.step()
        keeper.after_step(step)
    dist.barrier()
    if rank == 0:
        print(f"kept: {(time.perf_counter() - start) / STEPS * 1e3:.2f} ms/step")
        keeper.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
