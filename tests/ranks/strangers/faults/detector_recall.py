#: n=6 ranks=4 cause=different_op tier=error set=2
import time
from datetime import timedelta
from typing import Union

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn as nn

Number = Union[float, torch.Tensor]


class AnchorHead(nn.Module):
    """Objectness scores for a fixed set of anchors."""

    def __init__(self, anchors: int = 20) -> None:
        super().__init__()
        self.trunk = nn.Linear(30, 24)
        self.score = nn.Linear(24, anchors)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.score(torch.relu(self.trunk(images)))


class FrameSource:
    """Dashcam frames; night segments have no labelled objects."""

    NIGHT = {4: range(21, 29), 1: range(60, 66)}

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.gen = torch.Generator().manual_seed(900 + rank)

    def frame_batch(self, step: int):
        time.sleep(0.14)
        images = torch.randn(6, 30, generator=self.gen)
        boxes = (torch.rand(6, 20, generator=self.gen) > 0.6).float()
        if step in self.NIGHT.get(self.rank, ()):
            boxes.zero_()
        return images, boxes


def recall(scores: torch.Tensor, boxes: torch.Tensor) -> Number:
    positives = boxes.sum()
    if positives == 0:
        return 0.0
    hits = ((scores > 0) & (boxes > 0)).sum()
    return hits / positives


def average_over_ranks(value: Number) -> float:
    """Accepts whatever the metric functions return."""
    world = dist.get_world_size()
    if isinstance(value, torch.Tensor):
        total = value.detach().float().reshape(1)
        dist.all_reduce(total)
        return total.item() / world
    parts = [None] * world
    print("FREEZE", time.time(), flush=True)
    dist.all_gather_object(parts, value)  #: LINE
    return sum(parts) / world


def sync_gradients(model: nn.Module) -> None:
    world = dist.get_world_size()
    grads = [p.grad for p in model.parameters()]
    flat = torch.cat([g.reshape(-1) for g in grads])
    flat = funcol.all_reduce(flat, "sum", dist.group.WORLD) / world
    for g, piece in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(piece.view_as(g))


def main() -> None:
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(3)
    model = AnchorHead()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    source = FrameSource(rank)

    for step in range(300):
        images, boxes = source.frame_batch(step)
        scores = model(images)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, boxes)
        opt.zero_grad()
        loss.backward()
        sync_gradients(model)
        opt.step()
        r = average_over_ranks(recall(scores, boxes))
        if rank == 0 and step % 10 == 0:
            print(f"{step:4d} loss={loss.item():.3f} recall={r:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
