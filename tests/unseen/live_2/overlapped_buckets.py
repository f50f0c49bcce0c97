"""Gradient buckets are reduced in the background while other work is done; every handle is waited for."""
import time

import torch
import torch.distributed as c10d
from torch import nn


class Overlap:
    """Hooks start an async all-reduce as soon as a layer has its gradient."""

    def __init__(self, net):
        self.pending = []
        self.world = c10d.get_world_size()
        for p in net.parameters():
            p.register_post_accumulate_grad_hook(self.launch)

    def launch(self, p):
        self.pending.append((c10d.all_reduce(p.grad, async_op=True), p))

    def finish(self):
        for work, p in self.pending:
            work.wait()
            p.grad.div_(self.world)
        self.pending.clear()


def host_side_work(step, rank):
    """Statistics for the monitor; heavier on another rank in every step."""
    reps = 12 if step % c10d.get_world_size() == rank else 2
    acc = 0.0
    for k in range(reps):
        acc += torch.linalg.svdvals(torch.randn(64, 64, generator=torch.Generator().manual_seed(k)))[0].item()
    return acc


def main():
    c10d.init_process_group("gloo")
    rank = c10d.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(300, 300), nn.ReLU())], nn.Linear(300, 4))
    hooks = Overlap(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    stats_work, stats = None, torch.zeros(2)
    for step in range(1, 101):
        g = torch.Generator().manual_seed(step * 5 + rank)
        x = torch.randn(128, 300, generator=g)
        loss = nn.functional.cross_entropy(net(x), x[:, :4].argmax(1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        load = host_side_work(step, rank)
        hooks.finish()
        opt.step()
        # the numbers of the step before have had a whole step to arrive
        if stats_work is not None:
            stats_work.wait()
            if rank == 0 and step % 20 == 0:
                print(f"step {step} loss {stats[0] / hooks.world:.4f} load {stats[1]:.1f}", flush=True)
        stats = torch.tensor([loss.item(), load])
        stats_work = c10d.all_reduce(stats, async_op=True)
        time.sleep(0.05)
    stats_work.wait()
    c10d.barrier()
    c10d.destroy_process_group()


if __name__ == "__main__":
    main()
