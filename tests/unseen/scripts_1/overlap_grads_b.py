"""Gradient all-reduce launched tensor by tensor with async_op, waited for afterwards."""
import logging
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

logging.basicConfig(format="%(message)s", level=logging.INFO)


class GradSync:
    def __init__(self, model):
        self.model = model
        self.world = dist.get_world_size()

    def launch_order(self):
        named = list(self.model.named_parameters())
        return sorted(named, key=lambda kv: kv[1].grad.numel(), reverse=True)

    def launch(self):
        return [
            (name, p, dist.all_reduce(p.grad, async_op=True)) for name, p in self.launch_order()
        ]

    def finish(self, pending):
        while pending:
            _, p, work = pending.pop()
            work.wait()
            p.grad /= self.world


def make_model():
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(9, 14), nn.ReLU(), nn.Linear(14, 5))


def batch(rank, step):
    g = torch.Generator().manual_seed(10 * step + rank)
    x = torch.randn(256, 9, generator=g)
    if rank == 2 and step == 4:
        x *= 0.01        # a nearly silent recording
    return x, x[:, :5].argmax(1)


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    model = make_model()
    sync = GradSync(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        x, y = batch(rank, step)
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        sync.finish(sync.launch())
        opt.step()
        if rank == 0:
            logging.info("step %d loss %.4f", step, loss.item())
    total = sum(p.detach().double().sum() for p in model.parameters()).reshape(1)
    low, high = total.clone(), total.clone()
    dist.all_reduce(low, op=dist.ReduceOp.MIN)
    dist.all_reduce(high, op=dist.ReduceOp.MAX)
    assert torch.allclose(low, high)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
