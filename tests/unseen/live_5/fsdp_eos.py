"""FSDP2: train a small decoder and, every 60 steps, let every rank write a few samples with it."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

VOCAB, DIM, CTX = 96, 64, 24
EOS = 0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attn = nn.MultiheadAttention(DIM, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        h = self.n1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.emb, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(CTX, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        x = self.emb(ids) + self.pos(torch.arange(ids.shape[1]))
        for b in self.blocks:
            x = b(x)
        return self.out(x)


def batch(g, n=16):
    """Counting sequences that stop with EOS somewhere after the twelfth token."""
    start = torch.randint(1, 60, (n, 1), generator=g)
    ids = start + torch.arange(CTX)
    stop = torch.randint(12, CTX, (n, 1), generator=g)
    return torch.where(torch.arange(CTX) >= stop, EOS, ids)


@torch.no_grad()
def sample(model, prompt, g, limit=CTX):
    model.eval()
    ids = prompt
    finished = torch.zeros(len(ids), dtype=torch.bool)
    while ids.shape[1] < limit:
        logits = model(ids)[:, -1]
        new = torch.multinomial((logits / 0.8).softmax(-1), 1, generator=g).squeeze(1)
        new = new.masked_fill(finished, EOS)
        finished |= new == EOS
        ids = torch.cat([ids, new[:, None]], 1)
        if finished.all():  #: LINE
            break  #: LINE
    model.train()
    return ids


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Decoder()
    for b in model.blocks:
        fully_shard(b)
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(31 + rank)
    for step in range(1, 601):
        ids = batch(g)
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 60 == 0:
            prompt = torch.randint(1, 40, (2, 4), generator=g)
            ids = sample(model, prompt, g)
            print(f"[{rank}] step {step} loss {loss.item():.3f} sample {ids[0].tolist()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
