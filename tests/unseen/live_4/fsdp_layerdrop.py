import random

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        return x + self.ff(self.norm(x))


class Encoder(nn.Module):
    def __init__(self, d=48, depth=6, layerdrop=0.004):
        super().__init__()
        self.layers = nn.ModuleList(Layer(d) for _ in range(depth))
        self.out = nn.Linear(d, 10)
        self.layerdrop = layerdrop

    def forward(self, x):
        for layer in self.layers:
            if self.training and random.random() < self.layerdrop:  #: LINE
                continue
            x = layer(x)
        return self.out(x)


def run():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Encoder()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    random.seed(70 + rank)            # other augmentations on every rank
    torch.manual_seed(100 + rank)
    for step in range(500):
        x, y = torch.randn(32, 48), torch.randint(0, 10, (32,))
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()  #: LINE
        opt.step()
        opt.zero_grad()
        if rank == 0 and step % 10 == 0:
            print(f"{step:4d} {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    run()
