"""Songs that go together. Each step's misses go to the archive; hard negatives come from the neighbour cache."""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from stores import Archive, Neighbours

SONGS, DIM, BATCH = 2000, 64, 256


class Songs(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(SONGS, DIM)
        self.net = nn.Sequential(nn.Linear(DIM, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, DIM))

    def forward(self, ids):
        return nn.functional.normalize(self.net(self.table(ids)), dim=1)


def main():
    torch.manual_seed(0)
    model = Songs()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    archive, neighbours = Archive(), Neighbours(SONGS)
    lane = ThreadPoolExecutor(1)
    lookups = lane
    misses, seconds = [], []
    for step in range(100):
        t0 = time.perf_counter()
        rng = torch.Generator().manual_seed(step)
        a = torch.randint(0, SONGS, (BATCH,), generator=rng)
        b = (a + torch.randint(1, 5, (BATCH,), generator=rng)) % SONGS
        lane.submit(archive.write, misses)
        c = lookups.submit(neighbours.of, a, step).result()  #: LINE
        x, y, z = model(a), model(b), model(c)
        margin = (x * z).sum(1) - (x * y).sum(1) + 0.3
        optimizer.zero_grad()
        margin.relu().mean().backward()
        optimizer.step()
        misses = a[margin > 0.3].tolist()
        seconds.append(time.perf_counter() - t0)
    lane.shutdown()
    print(f"{archive.lines} songs in the archive")
    print(f"{1e3 * statistics.median(seconds):.2f} ms/step median, {1e3 * statistics.mean(seconds):.2f} ms/step")


if __name__ == "__main__":
    main()
