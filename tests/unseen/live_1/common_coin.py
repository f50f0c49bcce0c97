"""Stochastic depth and occasional global measurements, from a coin that all ranks share."""
import random

import torch
import torch.distributed as dist


class Coin:
    """shared: same on all ranks; private: noise of the rank"""

    def __init__(self, seed, rank):
        self.shared = random.Random(seed)
        self.private = random.Random(seed * 1000 + rank)


class Measurement:
    def __init__(self, coin):
        self.coin = coin
        self.rows = []

    def __call__(self, step, t):
        if self.coin.shared.random() < 0.15:
            m = t.mean().reshape(1).clone()
            dist.all_reduce(m)
            self.rows.append((step, m.item()))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    coin = Coin(9, rank)
    meas = Measurement(coin)
    layers = [torch.randn(10, 10) * 0.3 for _ in range(4)]
    for l in layers:
        dist.broadcast(l, 0)
    for step in range(120):
        x = torch.randn(5, 10)
        for l in layers:
            if coin.private.random() < 0.3:
                continue
            x = torch.relu(x @ l)
        meas(step, x)
        k = coin.shared.randrange(4)
        g = x.t() @ x
        dist.all_reduce(g)
        layers[k] = layers[k] - 1e-3 * g / world
    if rank == 0:
        print(meas.rows[-5:], flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
