import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

import documents


class Classifier(nn.Module):
    def __init__(self, dim=128, classes=6):
        super().__init__()
        self.embed = nn.Embedding(2000, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(dim, classes)

    def forward(self, ids):
        return self.out(self.encoder(self.embed(ids)).mean(1))


def run(rank, world):
    torch.manual_seed(7)
    docs = documents.make(8 * 22 * world, seed=40)[rank::world]
    buckets = documents.bucketed(docs, 8)
    model = DistributedDataParallel(Classifier())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    durations = []
    for e in range(3):
        before = time.perf_counter()
        for ids, labels in documents.epoch(buckets, seed=1000 * rank + e):
            loss = nn.functional.cross_entropy(model(ids), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            after = time.perf_counter()
            durations.append((after - before) * 1000)
            before = after
    if rank == 0:
        d = durations[3:]
        print(f"{statistics.median(d):.2f} ms/step median, {statistics.mean(d):.2f} ms/step")
    del model, optimizer


if __name__ == "__main__":
    dist.init_process_group("gloo")
    run(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    dist.destroy_process_group()
