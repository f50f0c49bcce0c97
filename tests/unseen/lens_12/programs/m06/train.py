import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP

from langmodel import CharModel, text

VOCABULARY, PIECES, STEPS = 6000, 3, 60


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(CharModel(VOCABULARY))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    data = text(64, 12, VOCABULARY, seed=rank)
    clock = []
    for step in range(STEPS):
        begin = time.perf_counter()
        optimizer.zero_grad()
        for piece in range(PIECES):
            rows = data[(step * PIECES + piece) * 4 % 64:][:4]
            scores = model(rows[:, :-1])
            loss = cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten()) / PIECES
            loss.backward()  #: LINE
        optimizer.step()
        clock.append(1000 * (time.perf_counter() - begin))
    if rank == 0:
        clock = clock[3:]
        print(f"{statistics.median(clock):.2f} ms/step median, {statistics.mean(clock):.2f} ms/step")
    dist.destroy_process_group()


main()
