import gc
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class Config:
    vocab: int = 1200
    width: int = 128
    seq: int = 48
    batch: int = 16
    steps: int = 14


def build_merges(n):
    return {("tok", i): [i, (i * 7919) % n, {"rank": i}] for i in range(n)}


class LM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c.vocab, c.width)
        self.rnn = nn.GRU(c.width, c.width, batch_first=True)
        self.out = nn.Linear(c.width, c.vocab)

    def forward(self, t):
        return self.out(self.rnn(self.emb(t))[0])


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.merges = build_merges(7_000)
        self.model = DDP(LM(cfg))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        self.gen = torch.Generator().manual_seed(11 + dist.get_rank())

    def batch(self):
        c = self.cfg
        return torch.randint(0, c.vocab, (c.batch, c.seq + 1), generator=self.gen)

    def step(self):
        t = self.batch()
        logits = self.model(t[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), t[:, 1:].flatten())
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach()

    def fit(self):
        gc.collect()
        gc.freeze()
        for i in range(self.cfg.steps):
            if i == 3:
                t0 = time.perf_counter()
            loss = self.step()
        return loss, (time.perf_counter() - t0) / (self.cfg.steps - 3)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    loss, per_step = Trainer(Config()).fit()
    if dist.get_rank() == 0:
        print(f"loss {loss:.3f} {per_step * 1e3:.2f} ms/step", flush=True)
    dist.destroy_process_group()
