import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler

from network import Complaints, word_vectors


class Letters(Dataset):
    def __init__(self, count=6000, words=30000, length=40, departments=24):
        made = torch.Generator().manual_seed(2)
        self.where = torch.randint(0, departments, (count,), generator=made)
        self.words = (torch.randint(0, words // 2, (count, length), generator=made) + 600 * self.where[:, None]) % words

    def __len__(self):
        return len(self.where)

    def __getitem__(self, picked):
        return self.words[picked], self.where[picked]


def batches(data, size):
    ranks = DistributedSampler(data)
    loader = DataLoader(data, sampler=BatchSampler(ranks, size, drop_last=True), batch_size=None)
    for epoch in range(1 << 20):
        ranks.set_epoch(epoch)
        yield from loader


def main(steps=60, size=24):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(Complaints(word_vectors()), gradient_as_bucket_view=True, broadcast_buffers=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    source = batches(Letters(), size)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        words, where = next(source)
        loss = F.cross_entropy(model(words), where)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"last loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
