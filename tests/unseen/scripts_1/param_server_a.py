"""Asynchronous parameter server: rank 0 serves, all others push gradients and pull weights."""
from datetime import timedelta

import torch
import torch.distributed as dist

DIM = 6
PUSHES = 7


def target():
    return torch.linspace(-1, 1, DIM)


class Server:
    def __init__(self, world):
        self.weights = torch.zeros(DIM)
        self.expected = PUSHES * (world - 1)

    def serve(self, lr=0.05):
        grad = torch.empty(DIM)
        for _ in range(self.expected):
            worker = dist.recv(grad)
            self.weights -= lr * grad
            dist.send(self.weights, dst=worker)
        return self.weights


class Worker:
    def __init__(self, rank):
        self.rank = rank
        self.gen = torch.Generator().manual_seed(rank)
        self.weights = torch.zeros(DIM)

    def gradient(self, i):
        x = torch.randn(10, DIM, generator=self.gen)
        if self.rank == 2 and i == 5:
            x.zero_()
        err = x @ (self.weights - target())
        return x.T @ err / len(x)

    def work(self):
        for i in range(PUSHES):
            g = self.gradient(i)
            if g.abs().max() == 0:
                continue
            dist.send(g, dst=0)
            dist.recv(self.weights, src=0)


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        w = Server(world).serve()
        print("distance to target", round((w - target()).norm().item(), 4))
    else:
        Worker(rank).work()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
