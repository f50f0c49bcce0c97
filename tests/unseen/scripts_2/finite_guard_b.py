import contextlib
import math
import os
import typing as t

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

RANK = int(os.environ.get("RANK", 0))
WORLD = int(os.environ.get("WORLD_SIZE", 1))


@contextlib.contextmanager
def process_group():
    dist.init_process_group("gloo", rank=RANK, world_size=WORLD)
    try:
        yield
    finally:
        dist.destroy_process_group()


def stream(steps: int) -> t.Iterator[t.Tuple[Tensor, Tensor]]:
    """Prices with gaps; a zero price makes its log return infinite."""
    g = torch.Generator().manual_seed(1000 + RANK)
    for step in range(steps):
        prices = torch.rand(6, 9, generator=g) + 0.5
        if (step * WORLD + RANK) % 13 == 10:
            prices[2, 4] = 0.0
        returns = (prices[:, 1:] / prices[:, :-1]).log()
        yield returns, returns.roll(-1, dims=1).sum(1, keepdim=True)


def make_model() -> nn.Module:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(8, 20), nn.SiLU(), nn.Linear(20, 20), nn.SiLU(), nn.Linear(20, 1))
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mp_policy=MixedPrecisionPolicy())
    return fully_shard(net)


def usable(loss: Tensor) -> bool:
    bad = torch.tensor(0.0 if math.isfinite(loss.item()) else 1.0)
    dist.all_reduce(bad, op=dist.ReduceOp.MAX)
    return bad.item() == 0.0


def train(steps: int = 9) -> t.List[float]:
    model = make_model()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    kept = []
    for x, y in stream(steps):
        loss = nn.functional.smooth_l1_loss(model(x), y)
        if not usable(loss):
            opt.zero_grad()
            continue
        loss.backward()
        opt.step()
        opt.zero_grad()
        kept.append(loss.item())
    return kept


if __name__ == "__main__":
    with process_group():
        history = train()
        dist.barrier()
        if RANK == 0:
            print(f"{len(history)} steps, last loss {history[-1]:.4f}")
