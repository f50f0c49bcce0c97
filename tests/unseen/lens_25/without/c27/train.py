import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from mixer import Mixer


class Bark(Dataset):
    def __init__(self, count=2000, kinds=20, side=32):
        self.kind = torch.randint(0, kinds, (count,))
        grain = torch.randn(kinds, 3, 1, side)
        self.pictures = grain[self.kind] + torch.randn(count, 3, side, side)

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, picked):
        return self.pictures[picked], self.kind[picked]


def main(steps=60, batch=12):
    torch.manual_seed(0)
    bark = Bark()
    loader = DataLoader(bark, batch_size=None, sampler=BatchSampler(RandomSampler(bark), batch, drop_last=True))
    model = Mixer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    times, last = [], time.perf_counter()
    for step, (pictures, kind) in zip(range(steps), loader):
        loss = F.cross_entropy(model(pictures), kind, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        now = time.perf_counter()
        times.append(1e3 * (now - last))
        last = now
    print(f"last loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
