"""Word model with a wide head on 2 ranks, gradients summed by hand."""
import statistics
import time
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from trunk import Trunk

WORDS = 45056
WORKS = []


def send(p):
    WORKS.append((p, dist.all_reduce(p.grad, async_op=True)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = Trunk(96)
        self.head = nn.Linear(96, WORDS, bias=False)

    def forward(self, x):
        return self.head(self.trunk(x))


def average(model):
    for p, work in WORKS:
        work.wait()
        p.grad.div_(dist.get_world_size())
    WORKS.clear()


def train(model, steps=30, lr=0.05):
    g = torch.Generator().manual_seed(3 + dist.get_rank())
    took = []
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(send)
    for _ in range(steps):
        t = time.perf_counter()
        x = torch.randn(4, 96, generator=g)
        y = torch.randint(WORDS, (4,), generator=g)
        F.cross_entropy(model(x), y).backward()
        average(model)
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(p.grad, alpha=lr)
                p.grad = None
        took.append(time.perf_counter() - t)
    return took


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    took = train(Model())
    if dist.get_rank() == 0:
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()
