"""DDP language model whose context grows in stages (16 to 384 tokens), so that steps become many times slower."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, DIM, BATCH = 128, 64, 8
STAGES = [(16, 120), (64, 80), (192, 60), (384, 50), (32, 60)]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 4, DIM // 4).permute(2, 0, 3, 1, 4)
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, DIM))
        return x + self.mlp(self.n2(x))


class LM(nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Embedding(512, DIM)
        self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        return self.out(self.blocks(self.emb(ids) + self.pos(torch.arange(ids.shape[1]))))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(LM())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    for context, steps in STAGES:
        begin = time.time()
        for step in range(steps):
            # packed documents: padded to the longest, lengths differ a little between the ranks
            length = int(context * (0.85 + 0.15 * torch.rand(1, generator=g).item()))
            ids = (torch.randint(0, VOCAB, (BATCH, 1), generator=g) + 3 * torch.arange(length + 1)) % VOCAB
            loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
        tokens = torch.tensor(float(context * BATCH * steps))
        dist.all_reduce(tokens)
        if rank == 0:
            print(f"context {context} loss {loss.item():.3f} {(time.time() - begin) / steps:.3f} s a step, {int(tokens)} tokens", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
