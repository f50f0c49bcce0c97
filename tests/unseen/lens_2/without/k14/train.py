import time
import torch
import torch.distributed as dist
from torch import nn
from ledger import Ledger

STEPS = 26


def make(seed=12):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.Conv2d(6, 1, 5, padding=2))


def reduce_all(params):
    grads = [p.grad for p in params]
    flat = torch._utils._flatten_dense_tensors(grads)
    dist.all_reduce(flat)
    for g, new in zip(grads, torch._utils._unflatten_dense_tensors(flat / dist.get_world_size(), grads)):
        g.copy_(new)


def one(net, opt, step, rank):
    g = torch.Generator().manual_seed(step * 10 + rank)
    clear = torch.rand(4, 1, 28, 28, generator=g)
    loss = (net(clear + 0.2 * torch.randn(clear.shape, generator=g)) - clear).square().mean()
    opt.zero_grad()
    loss.backward()
    time.sleep(0.03)
    reduce_all(list(net.parameters()))
    opt.step()
    return loss


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    net = make()
    opt = torch.optim.Adam(net.parameters())
    ledger = Ledger(rank)
    start = time.perf_counter()
    for step in range(STEPS):
        loss = one(net, opt, step, rank)
        ledger.note(step=step, rank=rank, loss=float(loss))
    dist.barrier()
    if rank == 0:
        print(f"denoise: {(time.perf_counter() - start) / STEPS * 1e3:.2f} ms/step")
    dist.destroy_process_group()
