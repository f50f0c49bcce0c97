#: n=4 ranks=1 cause=dataloader_worker tier=error set=3
import multiprocessing as mp
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class NoiseBank:
    """Shared background noise; one user at a time since clips are mixed in place."""

    def __init__(self):
        self.guard = mp.Lock()
        self.clips = torch.randn(8, 16)

    def mix(self, wave, k):
        with self.guard:
            clip = self.clips[k % 8]
            if wave.abs().max() > 50:
                return self.normalised_mix(wave, clip)
            return wave + 0.1 * clip

    def normalised_mix(self, wave, clip):
        peak = wave.abs().max()
        print("FREEZE", time.time(), flush=True)
        with self.guard:  #: LINE
            return wave / peak + 0.1 * clip


class Birdsong(Dataset):
    LOUD = {329}         # a microphone was hit

    def __init__(self, bank, n=800):
        self.bank, self.n = bank, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(0.03)
        wave = torch.randn(16, generator=torch.Generator().manual_seed(i))
        if i in self.LOUD:
            wave = wave * 1000
        return self.bank.mix(wave, i), i % 3


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3))

    def forward(self, x):
        return self.body(x)


def loader_for(bank):
    data = Birdsong(bank)
    sampler = DistributedSampler(data, shuffle=False)
    return DataLoader(data, batch_size=4, sampler=sampler, num_workers=1, prefetch_factor=2)


def train():
    torch.manual_seed(0)
    model = DDP(Classifier())
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = loader_for(NoiseBank())
    for epoch in range(1, 3):
        for i, (x, y) in enumerate(loader):  #: LINE
            time.sleep(0.1)
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if dist.get_rank() == 0 and i % 4 == 0:
                print(f"epoch {epoch} it {i} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    train()
    dist.destroy_process_group()
