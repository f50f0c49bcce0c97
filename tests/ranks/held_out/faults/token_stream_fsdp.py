#: n=3 ranks=1 cause=uneven_data tier=error set=3
"""FSDP2 language model pretraining on packed token streams of different length."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

SEQ, VOCAB = 16, 40


def document_lengths(rank):
    """Number of tokens per document for this rank's part of the crawl."""
    gen = torch.Generator().manual_seed(4)
    docs = torch.randint(40, 60, (60,), generator=gen).tolist()
    mine = docs[rank::3]
    if rank == 1:
        mine = mine[:11]          # most of it was removed as duplicates
    return mine


class PackedStream:
    def __init__(self, rank):
        self.rank = rank
        self.lengths = document_lengths(rank)
        self.gen = torch.Generator().manual_seed(rank)

    def __iter__(self):
        buf = torch.empty(0, dtype=torch.long)
        for n in self.lengths:
            buf = torch.cat([buf, torch.randint(0, VOCAB, (n,), generator=self.gen)])
            while buf.numel() > SEQ:
                time.sleep(0.15)
                chunk, buf = buf[: SEQ + 1], buf[SEQ:]
                yield chunk[None, :-1], chunk[None, 1:]


class TinyLM(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d)
        self.mix = nn.ModuleList([nn.Linear(d, d), nn.Linear(d, d)])
        self.head = nn.Linear(d, VOCAB)

    def forward(self, ids):
        h = self.tok(ids)
        for layer in self.mix:
            h = h + torch.tanh(layer(h))
        return self.head(h)


def shard(model, mesh):
    for layer in model.mix:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def pretrain(model, stream, opt):
    steps = 0
    for ids, nxt in stream:
        loss = F.cross_entropy(model(ids).flatten(0, 1), nxt.flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        steps += 1
        if dist.get_rank() == 0 and steps % 10 == 0:
            print("steps", steps, "loss", loss.item(), flush=True)
    return steps


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    torch.manual_seed(21)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = shard(TinyLM(), mesh)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = pretrain(model, PackedStream(dist.get_rank()), opt)
    if dist.get_rank() == 1:
        print("FREEZE", time.time(), flush=True)
    dist.barrier()  #: LINE
    print("done after", steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
