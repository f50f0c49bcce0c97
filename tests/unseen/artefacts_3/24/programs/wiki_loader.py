"""Bag of words on article dumps; the workers parse one article for each item."""
import json
import os
import re
import zlib

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import flightrec  # noqa: F401

ROOT = os.environ.get("WIKI", "wiki")
N = 192


def write_articles():
    os.makedirs(ROOT, exist_ok=True)
    for i in range(N):
        links = 60000 if i == 77 else 40
        text = " ".join(f"[[page {j * i % 997}|link{j % 53}]] word{j % 211}" for j in range(links))
        with open(f"{ROOT}/{i}.z", "wb") as f:
            f.write(zlib.compress(json.dumps({"text": text}).encode()))


def strip_links(text):
    """Replaces the links one by one, the innermost first."""
    pattern = re.compile(r"\[\[[^\[\]|]*\|([^\[\]]*)\]\]")
    while True:
        m = pattern.search(text)
        if m is None:
            return text
        text = text[:m.start()] + m.group(1) + text[m.end():]


class Articles(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        with open(f"{ROOT}/{i}.z", "rb") as f:
            text = json.loads(zlib.decompress(f.read()))["text"]
        bag = torch.zeros(512)
        for word in strip_links(text).split():
            bag[zlib.crc32(word.encode()) % 512] += 1
        return bag / bag.sum(), i % 4


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        write_articles()
    dist.barrier()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 4)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = Articles()
    sampler = DistributedSampler(data, seed=3)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for bag, label in loader:
            loss = nn.functional.cross_entropy(model(bag), label)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
