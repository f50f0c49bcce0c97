"""Gradients summed by hand on 2 ranks; the sum is needed at once, for clipping."""
import statistics
import time
import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(50, 70), nn.Linear(70, 1)

    def forward(self, x):
        time.sleep(0.052)
        return self.b(torch.tanh(self.a(x)))


class ClippedSGD:
    def __init__(self, params, lr, bound):
        self.params, self.lr, self.bound = list(params), lr, bound

    @torch.no_grad()
    def step(self):
        flat = torch.cat([p.grad.flatten() for p in self.params])
        work = dist.all_reduce(flat, async_op=True)
        work.wait()
        flat /= dist.get_world_size()
        flat *= (self.bound / (flat.norm() + 1e-6)).clamp(max=1.0)
        for p, g in zip(self.params, flat.split([p.numel() for p in self.params])):
            p.sub_(g.view_as(p), alpha=self.lr)
            p.grad = None


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = Net()
    opt = ClippedSGD(net.parameters(), 0.05, 1.0)
    torch.manual_seed(10 + dist.get_rank())
    took = []
    for _ in range(30):
        t = time.perf_counter()
        x = torch.randn(16, 50)
        (net(x) - x.sum(1, keepdim=True)).square().mean().backward()
        opt.step()
        took.append(time.perf_counter() - t)
    if dist.get_rank() == 0:
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


main()
