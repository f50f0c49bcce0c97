import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from molecules import Solubility, over_ranks, unsure


def prints(rank, count=6000, bits=256):
    draw = torch.Generator().manual_seed(1)
    rule = torch.randn(bits, generator=draw) / 8
    draw.manual_seed(20 + rank)
    some = (torch.rand(count, bits, generator=draw) < 0.2).float()
    return some, torch.tanh(some @ rule) + 0.1 * torch.randn(count, generator=draw)


def main(steps=60, batch=112):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = over_ranks(Solubility())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    known, dissolves = prints(dist.get_rank())
    torch.manual_seed(30 + dist.get_rank())
    times, began = [], time.perf_counter()
    for step in range(steps):
        picked, other = torch.randint(0, 3000, (batch,)), torch.randint(3000, 6000, (batch,))
        guess, spread = unsure(model, known[other])
        told = model(torch.cat([known[picked], known[other]]))
        loss = F.mse_loss(told[:batch], dissolves[picked]) + 0.3 * ((told[batch:] - guess).square() * (-8 * spread).exp()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
