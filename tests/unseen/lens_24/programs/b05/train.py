import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F

from replay import Replay


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, state):
        return state + self.narrow(F.gelu(self.wide(self.norm(state))))


class Locks(nn.Module):
    """How long will a ship wait at the next lock?"""

    def __init__(self, facts=40, width=192, depth=2):
        super().__init__()
        self.enter = nn.Linear(facts, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.wait = nn.Linear(width, 1)

    def forward(self, facts):
        state = self.enter(facts)
        for block in self.blocks:
            state = block(state)
        return self.wait(state).squeeze(1)


def main(steps=60, size=384):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(6)
    facts = torch.randn(20000, 40)
    waits = (facts @ torch.randn(40) / 4).exp().clamp(max=20)
    model = Locks()
    for block in model.blocks:
        parallelize_module(block, mesh, {"wide": ColwiseParallel(), "narrow": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    stamps = []
    with tempfile.TemporaryDirectory() as folder:
        replay = Replay(folder)
        for step in range(steps + 1):
            stamps.append(time.perf_counter())
            if step == steps:
                break
            picked = torch.randint(len(facts), (size,))
            batch = {"facts": facts[picked], "waits": waits[picked]}
            loss = F.poisson_nll_loss(model(batch["facts"]), batch["waits"])
            replay.watch(step, loss.item(), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        times = [1e3 * (b - a) for a, b in zip(stamps, stamps[1:])][3:]
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
