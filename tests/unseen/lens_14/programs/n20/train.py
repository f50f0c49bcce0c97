import contextlib
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from model import Recognizer

PIECES = 2


def utterances(count, g):
    frames = torch.randn(count, 40, 160, generator=g)
    words = torch.randint(1, 64, (count, 18), generator=g)
    return frames, words


def main(steps=60, batch=5):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Recognizer(), find_unused_parameters=True)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    frames, words = utterances(400, torch.Generator().manual_seed(rank))
    ctc = torch.nn.CTCLoss(zero_infinity=True)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        for piece in range(PIECES):
            pick = torch.randint(len(frames), (batch,))
            last = piece == PIECES - 1
            with contextlib.nullcontext() if last else model.no_sync():
                scores = model(frames[pick])
                sizes = torch.full((batch,), scores.shape[1])
                loss = ctc(scores.transpose(0, 1), words[pick], sizes, torch.full((batch,), 18)) / PIECES
                loss.backward()
        opt.step()
        opt.zero_grad()
        times.append(1e3 * (time.perf_counter() - begin))
    if rank == 0:
        times = times[3:]
        print(f"loss {PIECES * loss.item():.3f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
