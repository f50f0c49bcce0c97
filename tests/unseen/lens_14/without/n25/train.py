import contextlib
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from model import Decoder

ACCUMULATE, MICRO, LENGTH, VOCAB = 4, 2, 48, 600


def micro_batches(seed):
    g = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(VOCAB, (MICRO, LENGTH + 1), generator=g)


def main(steps=60):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Decoder(VOCAB, length=LENGTH))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    batches = micro_batches(100 + rank)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        total = 0.0
        for micro in range(ACCUMULATE):
            ids = next(batches)
            last = micro == ACCUMULATE - 1
            with contextlib.nullcontext() if last else model.no_sync():
                logits = model(ids[:, :-1])
                loss = cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) / ACCUMULATE
                loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - begin))
        if rank == 0 and step % 20 == 19:
            print(f"step {step + 1} loss {total.item():.3f}", flush=True)
    if rank == 0:
        times = times[3:]
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
