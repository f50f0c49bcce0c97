"""Copy task with a GRU; rank 0 decodes the validation set with a beam after each epoch."""
import math
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

import flightrec  # noqa: F401

VOCAB, BOS = 30, 0


class Decoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, VOCAB)

    def step(self, token, state):
        state = self.cell(self.emb(token), state)
        return self.out(state), state

    def forward(self, ids):
        state = self.emb(ids).mean(1)
        loss = 0.0
        prev = torch.full((len(ids),), BOS)
        for t in range(ids.size(1)):
            logits, state = self.step(prev, state)
            loss = loss + nn.functional.cross_entropy(logits, ids[:, t])
            prev = ids[:, t]
        return loss / ids.size(1)


@torch.no_grad()
def beam_search(net, ids, width=6):
    state = net.emb(ids).mean(0, keepdim=True)
    beams = [(0.0, [BOS], state)]
    for _ in range(len(ids)):
        grown = []
        for score, seq, st in beams:
            logits, new = net.step(torch.tensor([seq[-1]]), st)
            logp, tok = logits.log_softmax(1).topk(width)
            for lp, tk in zip(logp[0].tolist(), tok[0].tolist()):
                grown.append((score + lp, seq + [tk], new))
        beams = sorted(grown, key=lambda b: -b[0])[:width]
    return beams[0][1][1:]


def evaluate(net, sentences):
    hits = total = 0
    for ids in sentences:
        guess = beam_search(net, ids)
        hits += sum(a == b for a, b in zip(guess, ids.tolist()))
        total += len(ids)
    return hits / total


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = Decoder()
    model = DDP(net)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    val = torch.randint(1, VOCAB, (3600, 12), generator=torch.Generator().manual_seed(9))
    g = torch.Generator().manual_seed(100 + rank)
    for epoch in range(2):
        for _ in range(60):
            loss = model(torch.randint(1, VOCAB, (16, 12), generator=g))
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank == 0:
            t0 = time.time()
            acc = evaluate(net, val)
            print(f"epoch {epoch} loss {loss.item():.3f} acc {acc:.3f} ({time.time() - t0:.0f} s)", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
