#: n=4 ok exit=0
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Videos(Dataset):
    def __init__(self, rank, length, long_clip, decode_seconds):
        self.rank, self.length = rank, length
        self.long_clip, self.decode_seconds = long_clip, decode_seconds

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if i == self.long_clip:
            end = time.time() + self.decode_seconds
            frame = torch.zeros(3, 6, 6)
            while time.time() < end:
                frame = 0.9 * frame + 0.1 * torch.randn(3, 6, 6)
                time.sleep(0.01)
            return frame, i % 4
        time.sleep(0.06)
        return torch.randn(3, 6, 6), i % 4


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3), nn.Linear(8, 4)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)).mean((2, 3)))


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    odd = random.Random(time.time_ns()).uniform(10, 45)
    torch.manual_seed(1)
    data = Videos(rank, 4 * 45, long_clip=4 * 24 + 1 if rank == 0 else -1, decode_seconds=odd)
    loader = DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="fork")
    model = DDP(Conv())
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (clips, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(clips), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 2 and step % 10 == 0:
            print("step", step, loss.item(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
