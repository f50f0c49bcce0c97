"""Next-token model on a token file that the first rank prepares on the node's scratch disk."""
import os
import socket
import time

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SCRATCH = os.environ["SCRATCH"]  # fast local disk
TOKENS = os.path.join(SCRATCH, "corpus.tok")
READY = TOKENS + ".ready"


def build_tokens(n=400_000):
    g = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 512, (n,), generator=g, dtype=torch.int64)
    torch.save(ids, TOKENS)
    with open(READY, "w") as f:
        f.write(str(n))


def prepare(rank):
    if rank == 0:
        os.makedirs(SCRATCH, exist_ok=True)
        if not os.path.exists(READY):
            print("tokenising the corpus", flush=True)
            build_tokens()
    else:
        while not os.path.exists(READY):
            time.sleep(2)
    dist.barrier()


class Bigram(nn.Module):
    def __init__(self, vocab=512, dim=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, vocab))

    def forward(self, ids):
        return self.ff(self.emb(ids))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    hosts = [None] * world
    dist.all_gather_object(hosts, f"{socket.gethostname()}:{os.environ['LOCAL_RANK']}")
    if rank == 0:
        print("ranks on", hosts, flush=True)

    prepare(rank)
    tokens = torch.load(TOKENS, mmap=True)
    model = DDP(Bigram())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    g = torch.Generator().manual_seed(rank)
    for step in range(500):
        at = torch.randint(0, len(tokens) - 129, (16,), generator=g).tolist()
        rows = torch.stack([tokens[i:i + 129] for i in at])
        logits = model(rows[:, :-1])
        loss = loss_fn(logits.flatten(0, 1), rows[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
