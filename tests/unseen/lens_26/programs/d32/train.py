import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dist_tools import share_weights, sum_gradients


class Smell(nn.Module):
    """Answers of an electronic nose (32 sensors over 24 moments) -> kind of coffee."""

    def __init__(self, sensors=32, moments=24, width=512, kinds=12):
        super().__init__()
        self.first = nn.Linear(sensors * moments, width, bias=False)
        self.second = nn.Linear(width, width, bias=False)
        self.last = nn.Linear(width, kinds, bias=False)

    def forward(self, x):
        x = F.silu(self.first(x.flatten(1)))
        return self.last(F.silu(self.second(x)))


def sniff(count=16000, sensors=32, moments=24, kinds=12):
    made = torch.Generator().manual_seed(5)
    kind = torch.randint(0, kinds, (count,), generator=made)
    typical = torch.randn(kinds, sensors, moments, generator=made)
    return typical[kind] + 3 * torch.randn(count, sensors, moments, generator=made), kind


def main(steps=60, batch=896):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    answers, kinds = (whole[rank::world].contiguous() for whole in sniff())
    model = Smell()
    share_weights(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        at = step * batch % (len(kinds) - batch)
        loss = F.cross_entropy(model(answers[at : at + batch]), kinds[at : at + batch])
        optimizer.zero_grad()
        loss.backward()
        sum_gradients(model)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
