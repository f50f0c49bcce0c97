import os

import lightning as L
import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, a, b, rank=4, scale=2.0):
        super().__init__()
        self.base = nn.Linear(a, b).requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, a) * 0.02)
        self.up = nn.Parameter(torch.zeros(b, rank))
        self.scale = scale

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.down.T) @ self.up.T


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width).requires_grad_(False), nn.LayerNorm(width).requires_grad_(False)
        self.qkv, self.proj = LoRALinear(width, 3 * width), LoRALinear(width, width)
        self.mlp = nn.Sequential(LoRALinear(width, 4 * width), nn.GELU(), LoRALinear(4 * width, width))

    def forward(self, x):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, 2))
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Tuned(L.LightningModule):
    def __init__(self, folder, vocab=1500, width=128, depth=3):
        super().__init__()
        self.words = nn.Embedding(vocab, width).requires_grad_(False)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, vocab, bias=False).requires_grad_(False)
        self.folder = folder

    def training_step(self, batch, index):
        (ids,) = batch
        h = self.words(ids[:, :-1])
        for block in self.blocks:
            h = block(h)
        logits = self.head(h[:, ::2])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1::2].flatten())
        self.log("loss", loss)
        return loss

    def on_train_batch_end(self, outputs, batch, index):
        pass

    def configure_optimizers(self):
        return torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], lr=1e-3)
