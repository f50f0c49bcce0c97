#: n=4 ranks=2 cause=uneven_data tier=error
import math
import random
import time
from datetime import timedelta

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

block_size, batch_size, vocab_size, n_embd, n_layer, n_head = 16, 4, 96, 32, 2, 2
manifest_seed = 4127


def read_manifest(world):
    rng = random.Random(manifest_seed)
    batches = [8] * (4 * world)
    batches[2 * world + 2] = rng.randint(1, 6)
    return [{"name": f"shard_{i:05d}.bin", "batches": n} for i, n in enumerate(batches)]


class ShardedTokens(IterableDataset):
    def __init__(self, shards):
        self.shards = shards

    def __iter__(self):
        for i, shard in enumerate(self.shards):
            g = torch.Generator().manual_seed(hash(shard["name"]) % 2**31)
            for _ in range(shard["batches"]):
                time.sleep(0.15)
                buf = torch.randint(0, vocab_size, (batch_size, block_size + 1), generator=g)
                yield buf[:, :-1].contiguous(), buf[:, 1:].contiguous()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.qkv, self.proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, T, 3, n_head, C // n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList(Block() for _ in range(n_layer))
        self.head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.head(x).view(-1, vocab_size), targets.view(-1))


@torch.no_grad()
def estimate_loss(model):
    out = torch.zeros(1)
    for _ in range(3):
        ids = torch.randint(0, vocab_size, (batch_size, block_size + 1))
        out += model.module(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
    dist.all_reduce(out)
    return out.item() / (3 * dist.get_world_size())


def get_lr(it, warmup=10, total=60, peak=3e-3):
    if it < warmup:
        return peak * (it + 1) / warmup
    return 0.5 * peak * (1 + math.cos(math.pi * min(1.0, (it - warmup) / (total - warmup))))


def train_epoch(model, opt, loader, it, short):
    for x, y in loader:  #: LINE
        for group in opt.param_groups:
            group["lr"] = get_lr(it)
        loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        it += 1
    if short:
        print("FREEZE", time.time(), flush=True)
    dist.barrier()  #: LINE
    return it


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1337)
    model = DDP(GPT())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    mine = read_manifest(world)[rank::world]
    total = sum(s["batches"] for s in mine)
    loader = DataLoader(ShardedTokens(mine), batch_size=None)
    it = 0
    for epoch in range(2):
        it = train_epoch(model, opt, loader, it, short=total < 32)
        val = estimate_loss(model)
        if rank == 0:
            print(f"epoch {epoch} iter {it} val {val:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
