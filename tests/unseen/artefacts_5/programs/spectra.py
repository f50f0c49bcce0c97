"""DDP on spectra; batches with a non-finite loss are dropped."""
import frdump  # noqa: F401
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, BATCH, BINS = 60, 16, 40


def load(rank):
    g = torch.Generator().manual_seed(40 + rank)
    x = torch.rand(STEPS * BATCH, BINS, generator=g) + 0.01
    dark = torch.load("data/dark_frames.pt")
    for r, row in dark:
        if r == rank:
            x[row] = 0.0
    return x


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    x = load(rank)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(BINS, 64), nn.SiLU(), nn.Linear(64, BINS))
    ddp = DDP(net)
    opt = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    for epoch in range(2):
        seen = 0
        for step in range(STEPS):
            batch = x[step * BATCH:(step + 1) * BATCH]
            target = torch.log(batch)
            loss = (ddp(target) - target).abs().mean()
            if not torch.isfinite(loss):
                print(f"[rank {rank}] step {step}: loss is {loss.item()}, batch dropped", flush=True)
                continue
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            seen += len(batch)
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        counts = [None] * world
        dist.all_gather_object(counts, seen)
        if rank == 0:
            print(f"epoch {epoch}: {sum(counts)} spectra", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
