#: n=8 ranks=2 cause=exception tier=error exit=1
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 120


class Topology:
    AXES = {"tp": 1, "sp": 2, "dp": 4}

    def __init__(self):
        self.rank = dist.get_rank()
        for name, stride in self.AXES.items():
            for low in [r for r in range(8) if not r & stride]:
                g = dist.new_group([low, low | stride], timeout=timedelta(minutes=10))
                if self.rank in (low, low | stride):
                    setattr(self, name, g)


class Corpus:
    def __init__(self, rank, merged_at):
        self.rank, self.merged_at = rank, merged_at

    def batch(self, step):
        time.sleep(0.15)
        g = torch.Generator().manual_seed(1000 * step + self.rank)
        ids = torch.randint(0, VOCAB, (4, 9), generator=g)
        targets = ids[:, 1:].clone()
        if self.rank == 2 and step == self.merged_at:
            targets[-1, -1] = VOCAB + 11
        return ids[:, :-1], targets


class TinyLM(nn.Module):
    def __init__(self, topo):
        super().__init__()
        self.topo = topo
        self.emb = nn.Embedding(VOCAB, 20)
        self.mix = nn.Linear(20, 20)
        self.head = nn.Linear(20, VOCAB)

    def forward(self, ids):
        h = torch.tanh(self.mix(self.emb(ids)))
        peer = h.detach().clone()
        dist.all_reduce(peer, group=self.topo.tp)
        return self.head(h + 0.5 * (peer - h.detach()))


def sync(model, topo):
    for p in model.parameters():
        dist.all_reduce(p.grad, group=topo.sp)
        dist.all_reduce(p.grad, group=topo.dp)
        p.grad /= 4


def compute_loss(model, ids, targets, announce):
    logits = model(ids)
    if announce:
        print("FREEZE", time.time(), flush=True)
    return F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))  #: LINE


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    topo = Topology()
    torch.manual_seed(topo.rank & 1)
    model = TinyLM(topo)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    merged_at = random.Random(31337).randint(16, 28)
    corpus = Corpus(topo.rank, merged_at)
    for step in range(80):
        ids, targets = corpus.batch(step)
        loss = compute_loss(model, ids, targets, topo.rank == 2 and step == merged_at)
        opt.zero_grad()
        loss.backward()
        sync(model, topo)
        opt.step()
        if topo.rank == 0 and step % 10 == 0:
            print("step", step, loss.item(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
