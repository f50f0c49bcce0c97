"""Speech-like model; each rank lets an external tool compute features for a chunk of its files before it trains on them."""
import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

CHUNKS = 14

# stands for the feature extractor, which writes features to stdout and remarks to stderr
TOOL = """
import random, sys
chunk, rank = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(chunk * 100 + rank)
noisy = rank == 2 and chunk == 6
for i in range(240):
    print(*(f"{rng.gauss(0, 1):.3f}" for _ in range(6)))
    for k in range(8 if noisy else rng.randint(0, 1)):
        print(f"WARNING utt-{chunk:03d}-{i:05d}: clipped at sample {rng.randint(0, 99999)}, gain lowered", file=sys.stderr)
"""


def extract(chunk, rank):
    tool = subprocess.Popen([sys.executable, "-c", TOOL, str(chunk), str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    rows = [[float(v) for v in line.split()] for line in tool.stdout]  #: LINE
    remarks = tool.stderr.read()
    if tool.wait() != 0:
        raise RuntimeError(f"extractor failed on chunk {chunk}: {remarks[-500:]}")
    return torch.tensor(rows), remarks.count("WARNING")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 3))

    def forward(self, x):
        return self.net(x)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Net())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    warned = 0
    for chunk in range(CHUNKS):
        rows, n = extract(chunk, rank)
        warned += n
        y = rows[:, :3].argmax(1)
        for epoch in range(6):
            for part in torch.randperm(len(rows)).split(24):
                loss = nn.functional.cross_entropy(model(rows[part]), y[part])
                opt.zero_grad()
                loss.backward()
                opt.step()
        stats = torch.tensor([loss.item(), float(n)])
        dist.all_reduce(stats)
        if rank == 0:
            print(f"chunk {chunk} loss {stats[0].item() / world:.3f} warnings {int(stats[1])}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
