import argparse
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Tagger(nn.Module):
    def __init__(self, words, dim, tags):
        super().__init__()
        self.emb = nn.Embedding(words, dim)
        self.mix = nn.Linear(dim * 3, dim)
        self.head = nn.Linear(dim, tags)

    def forward(self, w):
        e = self.emb(w)
        left, right = torch.roll(e, 1, 1), torch.roll(e, -1, 1)
        return self.head(torch.tanh(self.mix(torch.cat([left, e, right], -1))))


class Loop:
    def __init__(self, args):
        self.args = args
        self.rank = dist.get_rank()
        self.model = DDP(Tagger(args.words, args.dim, 96))
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.dir = tempfile.mkdtemp(prefix="tagger")

    def keep(self, step):
        path = os.path.join(self.dir, "last.pt")
        torch.save({"head": self.model.module.head.state_dict(), "step": step}, path)

    def run(self):
        a = self.args
        for step in range(a.steps):
            if step == 3:
                t0 = time.perf_counter()
            w = torch.randint(0, a.words, (16, 24))
            loss = nn.functional.cross_entropy(self.model(w).flatten(0, 1), (w % 96).flatten())
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            if self.rank == 0 and step % 2 == 1:
                self.keep(step)
        ms = (time.perf_counter() - t0) * 1e3 / (a.steps - 3)
        if self.rank == 0:
            print(f"[done] {ms:.2f} ms/step", flush=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=24)
    ap.add_argument("--words", type=int, default=16000)
    ap.add_argument("--dim", type=int, default=160)
    dist.init_process_group("gloo")
    Loop(ap.parse_args()).run()
    dist.destroy_process_group()
