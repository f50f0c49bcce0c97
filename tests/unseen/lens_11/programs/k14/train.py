"""Byte-level language model: fully_shard and two micro-batches a step."""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from pace import Pace

STEPS, MICRO, LENGTH, WIDTH = 60, 2, 64, 128


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class ByteLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


dist.init_process_group("gloo")
torch.manual_seed(0)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = ByteLM()
for block in model.blocks:
    fully_shard(block, mesh=mesh, reshard_after_forward=False)
fully_shard(model, mesh=mesh, reshard_after_forward=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
gen = torch.Generator().manual_seed(dist.get_rank())
pace = Pace()
for step in range(STEPS):
    for micro in range(MICRO):
        last = micro == MICRO - 1
        model.set_requires_gradient_sync(last)
        model.set_reshard_after_backward(last)
        ids = torch.randint(0, 256, (8, LENGTH + 1), generator=gen)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) / MICRO
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    pace.tick()
if dist.get_rank() == 0:
    print(f"bits a byte {loss.item() * MICRO / 0.6931:.3f}")
    pace.report()
dist.barrier()
dist.destroy_process_group()
