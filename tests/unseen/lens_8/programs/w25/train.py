"""DDP training of a mixer; details go to the debug log."""
import logging

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from mixer import Mixer
from pace import Pace

STEPS = 62
BATCH = 24

log = logging.getLogger("train")


def describe(model):
    return "\n".join(f"  {name} {tuple(p.shape)} grad={p.grad}" for name, p in model.named_parameters())


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[{rank}] %(levelname)s %(message)s")
    torch.manual_seed(9)
    model = DDP(Mixer(tokens=64, width=128, depth=2, classes=20))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(100 + rank)
    pace = Pace()
    for step in range(STEPS):
        x = torch.randn(BATCH, 64, 128, generator=generator)
        y = torch.randint(0, 20, (BATCH,), generator=generator)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        log.debug(f"step {step} gradients\n{describe(model.module)}")  #: LINE
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if rank == 0 and step % 20 == 0:
            log.info("step %d loss %.4f", step, loss.item())
        pace.tick()
    if rank == 0:
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
