#: n=4 ranks=1 cause=skipped_collective tier=error set=3
# Supervised finetuning of a toy chat model with FSDP2.
# Loss is normalised by the number of answer tokens over all ranks.
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

IGNORE = -100


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up = nn.Linear(d, 2 * d)
        self.down = nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class ChatModel(nn.Module):
    def __init__(self, vocab=48, d=16, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(layers))
        self.out = nn.Linear(d, vocab)

    def forward(self, ids):
        h = self.emb(ids)
        for b in self.blocks:
            h = b(h)
        return self.out(h)


def conversations(rank, limit):
    gen = torch.Generator().manual_seed(7 * rank + 1)
    for i in range(limit):
        time.sleep(0.15)
        ids = torch.randint(0, 48, (2, 12), generator=gen)
        labels = ids.clone()
        prompt_len = 5
        if rank == 1 and i == 19:
            prompt_len = 12        # prompt alone fills the context window
        labels[:, :prompt_len] = IGNORE
        yield ids, labels


def global_token_count(labels):
    mine = (labels != IGNORE).sum().float()
    if mine.item() == 0:
        print("FREEZE", time.time(), flush=True)
        return torch.ones(())
    dist.all_reduce(mine)
    return mine


def masked_loss(logits, labels):
    denom = global_token_count(labels)
    total = nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum")
    return total * dist.get_world_size() / denom


def build(mesh):
    torch.manual_seed(3)
    model = ChatModel()
    for b in model.blocks:
        fully_shard(b, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def run():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = build(mesh)
    optim = torch.optim.SGD(model.parameters(), lr=0.05)
    for i, (ids, labels) in enumerate(conversations(rank, 60)):
        loss = masked_loss(model(ids), labels)
        loss.backward()  #: LINE
        optim.step()
        optim.zero_grad()
        if rank == 0 and i % 5 == 0:
            print("iter", i, "loss", round(loss.item(), 4), flush=True)
    dist.destroy_process_group()


run()
