import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from entities import Sentences, Tagger


def tagged(tags):
    """How many words count, on all the ranks."""
    count = (tags != -100).sum()
    dist.all_reduce(count)
    return count


def main(steps=60, batch=64):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Tagger())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sentences = Sentences(rank)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        tokens, tags = sentences.take(batch)
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), reduction="sum")
        loss = world * loss / tagged(tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
