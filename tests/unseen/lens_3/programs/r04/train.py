"""Which shelf does a book belong on? Two ranks with DDP; the whole catalogue is in memory."""
import gc
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from catalogue import read_catalogue

STEPS, SHELVES = 28, 40


class ShelfNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(4000, 64)
        self.head = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, SHELVES))

    def forward(self, words):
        time.sleep(0.045)                        # stands for kernels elsewhere
        return self.head(self.bag(words))


def tidy():
    gc.collect()  #: LINE


def draw(books, rng, size=32):
    keys = torch.randint(len(books), (size,), generator=rng).tolist()
    words = torch.tensor([[w % 4000 for w in books[k].words] for k in keys])
    shelf = torch.tensor([books[k].meta["size"] % SHELVES for k in keys])
    return words, shelf


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    gc.freeze()                                  # the libraries stay
    books = read_catalogue(40000)
    net = DDP(ShelfNet())
    opt = torch.optim.SGD(net.parameters(), lr=0.2)
    rng = torch.Generator().manual_seed(100 + rank)
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        words, shelf = draw(books, rng)
        loss = nn.functional.cross_entropy(net(words), shelf)
        opt.zero_grad()
        loss.backward()
        opt.step()
        del words, shelf
        tidy()
    ms = (time.perf_counter() - begin) / STEPS * 1e3
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{ms:.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
