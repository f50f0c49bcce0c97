import os
import random
from typing import Iterator, List

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, Sampler


class Utterances(Dataset):
    def __init__(self, n: int = 150, seed: int = 44):
        rng = random.Random(seed)
        self.frames = [rng.choice([4, 6, 8, 20]) for _ in range(n)]

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(self.frames[i], 5, generator=g), i % 3


class FrameBatchSampler(Sampler[List[int]]):
    """Batches of similar utterances with at most `max_frames` frames."""

    def __init__(self, frames, max_frames, rank, world, seed=0):
        self.frames, self.max_frames = frames, max_frames
        self.rank, self.world, self.seed = rank, world, seed
        self.epoch = 0

    def build(self) -> List[List[int]]:
        order = list(range(len(self.frames)))
        random.Random(self.seed + self.epoch).shuffle(order)
        mine = order[self.rank :: self.world]
        mine.sort(key=lambda i: self.frames[i])
        batches, batch, size = [], [], 0
        for i in mine:
            if batch and size + self.frames[i] > self.max_frames:
                batches.append(batch)
                batch, size = [], 0
            batch.append(i)
            size += self.frames[i]
        if batch:
            batches.append(batch)
        return batches

    def __iter__(self) -> Iterator[List[int]]:
        batches = self.build()
        count = torch.tensor(len(batches))
        dist.all_reduce(count, op=dist.ReduceOp.MIN)
        batches = batches[: int(count)]
        random.Random(self.epoch).shuffle(batches)
        yield from batches


def collate(items):
    xs, ys = zip(*items)
    lengths = torch.tensor([len(x) for x in xs])
    return nn.utils.rnn.pad_sequence(xs, batch_first=True), lengths, torch.tensor(ys)


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(5, 10), nn.Linear(10, 3)

    def forward(self, x, lengths):
        h = torch.relu(self.inner(x)).sum(1) / lengths[:, None]
        return self.outer(h)


def main():
    dist.init_process_group("gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(0)
    data = Utterances()
    sampler = FrameBatchSampler(data.frames, 80, rank, world)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=collate)
    model = DDP(Pooled())
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.epoch = epoch
        total = torch.zeros(2)
        for x, lengths, y in loader:
            loss = nn.functional.cross_entropy(model(x, lengths), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += torch.stack([loss.detach(), torch.tensor(1.0)])
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: {total[0] / total[1]:.4f} over {int(total[1])} batches", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
