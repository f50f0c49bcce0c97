"""DDP over documents of any length, until the token budget is spent."""
import frdump  # noqa: F401
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, BUDGET = 300, 20000


def documents(rank, world):
    lengths = torch.load("data/lengths.pt")
    g = torch.Generator().manual_seed(rank)
    for n in lengths[rank::world].tolist():
        yield torch.randint(0, VOCAB, (n,), generator=g)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    ddp = DDP(nn.Sequential(nn.Embedding(VOCAB, 24), nn.Linear(24, VOCAB)))
    opt = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    tokens = 0
    for step, doc in enumerate(documents(rank, world)):
        loss = nn.functional.cross_entropy(ddp(doc[:-1]), doc[1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        tokens += len(doc)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} tokens {tokens} loss {loss.item():.3f}", flush=True)
        if tokens >= BUDGET // world:
            break
    total = [None] * world
    dist.all_gather_object(total, tokens)
    if rank == 0:
        print(f"trained on {sum(total)} tokens", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
