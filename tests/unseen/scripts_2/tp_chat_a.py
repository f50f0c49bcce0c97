import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


@dataclass
class Config:
    vocab: int = 32
    dim: int = 16
    layers: int = 2
    steps: int = 8
    batch: int = 4
    seed: int = 40


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class TinyLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.dim)
        self.blocks = nn.ModuleList(FeedForward(cfg.dim) for _ in range(cfg.layers))
        self.head = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, ids):
        h = self.emb(ids)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def conversation(rng, cfg):
    """One batch of made-up turns; the number of tokens varies from batch to batch."""
    turns = rng.choice([1, 2, 3])
    length = 6 * turns
    ids = [[rng.randrange(cfg.vocab) for _ in range(length)] for _ in range(cfg.batch)]
    return torch.tensor(ids)


def main():
    cfg = Config()
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    torch.manual_seed(cfg.seed)
    model = TinyLM(cfg)
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    for block in model.blocks:
        parallelize_module(block, mesh["tp"], plan)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)

    rng = random.Random(cfg.seed)
    for step in range(cfg.steps):
        ids = conversation(rng, cfg)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if mesh.get_rank() == 0:
            print(f"step {step} tokens {ids.numel()} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
