# parse trees are kept as python objects; collected and frozen before the fork of the loaders
import gc
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Node:
    def __init__(self, label, kids=()):
        self.label = label
        self.kids = list(kids)
        self.up = None
        for k in self.kids:
            k.up = self


def grow(depth, seed):
    if depth == 0:
        return Node(seed % 50)
    return Node(seed % 50, [grow(depth - 1, seed * 3 + j) for j in range(2)])


class Trees(Dataset):
    def __init__(self, n, depth):
        self.items = [grow(depth, k) for k in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        labels, todo = [], [self.items[i]]
        while todo:
            n = todo.pop()
            labels.append(n.label)
            todo += n.kids
        return torch.tensor(labels[:31])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    t = time.time()
    data = Trees(60 if rank else 900, 9)
    for _ in range(3):
        gc.collect()
    gc.freeze()
    print(f"rank {rank}: forest ready in {time.time() - t:.1f}s", flush=True)
    emb = torch.nn.EmbeddingBag(50, 8)
    for epoch in range(2):
        for k, batch in enumerate(DataLoader(data, batch_size=6, num_workers=1)):
            if k == 10:
                break
            emb(batch).pow(2).mean().backward()
            dist.all_reduce(emb.weight.grad)
            emb.weight.grad = None
        if rank == 1:
            print("epoch", epoch, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
