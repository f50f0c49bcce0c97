import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from model import Subtitles


def shard(model):
    """One group of weights for each layer; table and head go with the root."""
    for layer in model.layers:
        fully_shard(layer, reshard_after_forward=False)
    fully_shard(model, reshard_after_forward=False)


def lines(letters=256, count=2000, length=65):
    start = torch.randint(0, letters, (count, 1))
    steps = torch.randint(1, 5, (count, length)).cumsum(1)
    return (start + steps) % letters


def main(steps=60, batch=4):
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    text, model = lines(), Subtitles()
    shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    picker = torch.Generator().manual_seed(dist.get_rank())
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = text[torch.randint(len(text), (batch,), generator=picker)]
        scores = model(picked[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), picked[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
