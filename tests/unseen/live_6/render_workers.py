"""Views are rendered by helper processes that leave after some frames; new ones take their place."""
import multiprocessing as mp
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


def renderer(jobs, frames, limit):
    for _ in range(limit):
        seed = jobs.get()
        if seed is None:
            return
        time.sleep(0.02)
        g = torch.Generator().manual_seed(seed)
        frames.put(torch.rand(3, 16, 16, generator=g).numpy())
    os._exit(3)


class Studio:
    def __init__(self, rank):
        self.ctx = mp.get_context("spawn")
        self.jobs, self.frames, self.rank, self.lost = self.ctx.SimpleQueue(), self.ctx.SimpleQueue(), rank, 0
        self.start()

    def start(self):
        self.proc = self.ctx.Process(target=renderer, args=(self.jobs, self.frames, 40), daemon=True)
        self.proc.start()

    def batch(self, n, seed):
        out = []
        for k in range(n):
            if not self.proc.is_alive():
                self.lost += 1
                print(f"rank {self.rank}: renderer ended with {self.proc.exitcode}, restart {self.lost}", flush=True)
                self.start()
            self.jobs.put(seed * 100 + k)
            while self.frames.empty():
                if not self.proc.is_alive() and self.frames.empty():
                    self.lost += 1
                    self.start()
                time.sleep(0.005)
            out.append(torch.from_numpy(self.frames.get()))
        return torch.stack(out)

    def close(self):
        self.jobs.put(None)
        self.proc.join(30)


class Poses(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        return torch.tensor([float(i), 1.0, 0.5])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Flatten(), nn.Linear(768, 64), nn.ReLU(), nn.Linear(64, 3)))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    studio = Studio(rank)
    for epoch in range(4):
        for i, pose in enumerate(DataLoader(Poses(), batch_size=4, num_workers=1)):
            img = studio.batch(4, seed=1000 * rank + 10 * epoch + i)
            loss = nn.functional.mse_loss(model(img), pose / 24)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
    studio.close()
    del model
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
