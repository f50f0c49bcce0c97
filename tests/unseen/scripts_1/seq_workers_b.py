"""Sequence tagging with variable lengths, DDP, and loader workers."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Sentences(Dataset):
    """Nearly all sentences have six words."""

    def __init__(self, n=64):
        g = torch.Generator().manual_seed(6)
        self.rows = [torch.randint(1, 30, (6,), generator=g) for _ in range(n)]
        self.rows[45] = torch.randint(1, 30, (9,), generator=g)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], self.rows[i] % 4


def collate(batch):
    words, tags = zip(*batch)
    return (
        pad_sequence(words, batch_first=True),
        pad_sequence(tags, batch_first=True, padding_value=-100),
    )


class Tagger(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.emb = nn.Embedding(30, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, 4)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def train(model, loader, rank):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step, (words, tags) in enumerate(loader):
        logits = model(words)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 2 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    return loss.detach()


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    data = Sentences()
    sampler = DistributedSampler(data, world, rank, shuffle=False)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2, collate_fn=collate)
    model = nn.parallel.DistributedDataParallel(Tagger())
    last = train(model, loader, rank)
    dist.all_reduce(last)
    if rank == 0:
        print("final", round(last.item() / world, 4))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
