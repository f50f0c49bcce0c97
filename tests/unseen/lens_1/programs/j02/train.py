import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Mixer(nn.Module):
    def __init__(self, d, seq):
        super().__init__()
        self.n1 = nn.LayerNorm(d)
        self.tok = nn.Linear(seq, seq)
        self.n2 = nn.LayerNorm(d)
        self.ch = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.tok(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.ch(self.n2(x))


class Model(nn.Module):
    def __init__(self, vocab, d, seq, depth):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Mixer(d, seq) for _ in range(depth))
        self.out = nn.Linear(d, vocab, bias=False)

    def forward(self, t):
        x = self.emb(t)
        for b in self.blocks:
            x = b(x)
        return self.out(x)


def shard(model):
    for b in model.blocks:
        fully_shard(b, reshard_after_forward=True)  #: LINE
    fully_shard(model)
    return model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=14)
    ap.add_argument("--accumulate", type=int, default=4)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = shard(Model(512, 256, 24, 4))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    torch.manual_seed(dist.get_rank() + 1)
    for step in range(args.steps):
        if step == 2:
            t0 = time.perf_counter()
        for micro in range(args.accumulate):
            last = micro == args.accumulate - 1
            model.set_requires_gradient_sync(last)
            t = torch.randint(0, 512, (4, 24))
            logits = model(t)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), t.roll(-1, 1).flatten()) / args.accumulate
            loss.backward()
        opt.step()
        opt.zero_grad()
    t1 = time.perf_counter()
    if dist.get_rank() == 0:
        print(f"loss {loss.item() * args.accumulate:.3f} {(t1 - t0) * 1e3 / (args.steps - 2):.2f} ms/step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
