import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.up = nn.Linear(d, 4 * d)
        self.down = nn.Linear(4 * d, d)

    def attend(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, s, d))

    def act(self, h):
        return nn.functional.relu(h).square()

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, vocab=256, d=128, heads=4, depth=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(depth))
        self.out = nn.Linear(d, vocab)

    def forward(self, t):
        x = self.emb(t)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(Decoder())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank)
    steps = 22
    for step in range(steps):
        if step == 3:
            t0 = time.perf_counter()
        t = torch.randint(0, 256, (4, 64))
        loss = nn.functional.cross_entropy(model(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    if rank == 0:
        print(f"step {steps} loss {loss.item():.3f} {(time.perf_counter() - t0) / (steps - 3) * 1e3:.2f} ms/step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
