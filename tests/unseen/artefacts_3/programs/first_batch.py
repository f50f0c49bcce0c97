"""Sequence classifier on a packed corpus that is indexed on first use."""
import os
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

import flightrec  # noqa: F401

CORPUS = os.environ.get("CORPUS", "corpus")
SIZES = (2_400_000, 60_000, 50_000, 70_000)


def write_corpus(rank):
    os.makedirs(CORPUS, exist_ok=True)
    rng = random.Random(rank)
    with open(f"{CORPUS}/{rank}.txt", "w") as f:
        for _ in range(SIZES[rank % 4]):
            f.write(f"{rng.randrange(4)}\t{rng.getrandbits(40):010x}\n")


class Packed(Dataset):
    def __init__(self, path, n):
        self.path, self.n = path, n
        self.index = None

    def build_index(self):
        index, at = [], 0
        with open(self.path, "rb") as f:
            for line in f:
                label, _, text = line.partition(b"\t")
                key = 0
                for c in text.strip():
                    key = (key * 31 + c) & 0xFFFFFFFF
                    key ^= key >> 7
                index.append((key, at, int(label)))
                at += len(line)
        index.sort()
        return index

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.index is None:
            self.index = self.build_index()
        _, at, label = self.index[i]
        with open(self.path, "rb") as f:
            f.seek(at)
            text = f.readline().split(b"\t")[1][:10]
        return torch.tensor(list(text)), label


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    write_corpus(rank)
    dist.barrier()
    torch.manual_seed(0)
    model = nn.Sequential(nn.EmbeddingBag(256, 16), nn.Linear(16, 4))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(Packed(f"{CORPUS}/{rank}.txt", 2000), batch_size=20)
    for step, (text, label) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(text), label)
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
