import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from tally import Tally


class Clouds(nn.Module):
    """Which of five kinds of cloud there is at four heights above each point."""

    def __init__(self, colours=8, width=112, heights=4, kinds=5):
        super().__init__()
        self.heights, self.kinds = heights, kinds
        self.net = nn.Sequential(
            nn.Conv2d(colours, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1), nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, heights * kinds, 1),
        )

    def forward(self, sky):
        scores = self.net(sky)
        return scores.view(len(sky), self.kinds, self.heights, *sky.shape[2:])


def skies(count=300, size=16, heights=4, kinds=5):
    kind = torch.randint(0, kinds, (count, heights, size, size))
    light = F.one_hot(kind, kinds).float().permute(0, 1, 4, 2, 3).flatten(1, 2)
    return torch.einsum("nkyx,kc->ncyx", light, torch.randn(heights * kinds, 8)) + 0.2 * torch.randn(count, 8, size, size), kind


def main(steps=60, batch=7):
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(11)
    sky, kind = skies()
    model = DDP(Clouds(), gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    tally, times = Tally(4, 5), []
    mine = torch.randperm(len(sky))[rank::ranks]
    began = time.perf_counter()
    for step in range(steps):
        picked = mine[torch.arange(step * batch, (step + 1) * batch) % len(mine)]
        scores = model(sky[picked])
        loss = F.cross_entropy(scores, kind[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tally.update(scores.argmax(1), kind[picked])
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    if rank == 0:
        print(f"loss {loss.item():.6f}, right at each height {[round(part, 3) for part in tally.right().tolist()]}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
