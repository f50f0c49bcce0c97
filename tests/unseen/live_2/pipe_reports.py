"""Three-stage pipeline (GPipe) over nightly reports; the labels live with the last stage."""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

DIM, BATCH, MICRO = 256, 64, 4


def part(index, count):
    torch.manual_seed(index)
    layers = [nn.Linear(DIM, 768), nn.ReLU(), nn.Linear(768, DIM), nn.LayerNorm(DIM)]
    if index == count - 1:
        layers.append(nn.Linear(DIM, 5))
    return nn.Sequential(*layers)


class Reports:
    """Features for the first stage, labels for the last one. Both files are read on their own."""

    def __init__(self, nights):
        self.nights = nights

    def features(self):
        for n in range(self.nights):
            yield torch.randn(BATCH, DIM, generator=torch.Generator().manual_seed(n))

    def labels(self):
        for n in range(self.nights):
            if n == 29:
                continue  # nobody labelled that night  #: LINE
            yield torch.randint(0, 5, (BATCH,), generator=torch.Generator().manual_seed(n))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nights", type=int, default=40)
    opts = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    data = Reports(opts.nights)
    module = part(rank, world)
    stage = PipelineStage(module, rank, world, torch.device("cpu"))
    sched = ScheduleGPipe(stage, MICRO, loss_fn=nn.functional.cross_entropy)
    optim = torch.optim.SGD(module.parameters(), lr=0.01)

    if rank == 0:
        for n, x in enumerate(data.features()):
            optim.zero_grad()
            sched.step(x)
            optim.step()
            if n % 5 == 0:
                print("night", n, flush=True)
    elif rank == world - 1:
        for y in data.labels():
            optim.zero_grad()
            losses = []
            sched.step(target=y, losses=losses)
            optim.step()
    else:
        for _ in range(opts.nights):
            optim.zero_grad()
            sched.step()
            optim.step()

    dist.barrier()
    if rank == world - 1:
        print("last loss", torch.stack(losses).mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
