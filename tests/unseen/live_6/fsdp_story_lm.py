import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard

VOCAB, WIDTH, CTX = 512, 96, 48


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, mask):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class StoryLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, WIDTH)
        self.pos = nn.Parameter(torch.zeros(CTX, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids):
        mask = torch.full((ids.shape[1],) * 2, float("-inf")).triu(1)
        x = self.tok(ids) + self.pos[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, mask)
        return self.out(x)


class Checkpointer:
    def __init__(self, folder, every):
        self.folder, self.every = folder, every

    def maybe_save(self, model, step):
        if step == 0 or step % self.every or dist.get_rank() != 0:
            return
        weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))  #: LINE
        torch.save(weights, os.path.join(self.folder, f"story-{step}.pt"))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    model = StoryLM()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
    saver = Checkpointer(tempfile.mkdtemp(prefix="story"), every=40)
    data = torch.Generator().manual_seed(rank)
    begin = time.time()
    for step in range(600):
        ids = torch.randint(0, VOCAB, (4, CTX + 1), generator=data)
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 10 == 0:
            print(f"{step:5d} {loss.item():.3f} {time.time() - begin:.1f}s", flush=True)
        saver.maybe_save(model, step)  #: LINE
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
