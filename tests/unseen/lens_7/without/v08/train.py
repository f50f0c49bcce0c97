import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from steptime import StepTime

STEPS = 62
log = logging.getLogger("train")


class Mixer(nn.Module):
    def __init__(self, dim=192, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * 3), nn.GELU(), nn.Linear(dim * 3, dim)) for _ in range(depth))
        self.out = nn.Linear(dim, 16)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.out(x.mean(1))


def main():
    dist.init_process_group("gloo")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(dist.get_rank())
    model = DDP(Mixer())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    clock = StepTime()
    for step in range(STEPS):
        x, y = torch.randn(14, 32, 192), torch.randint(0, 16, (14,))
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        if log.isEnabledFor(logging.DEBUG):
            log.debug(f"step {step} logits {logits} grads { {n: p.grad for n, p in model.named_parameters()} }")
        opt.step()
        clock.tick()
        if step % 25 == 0 and dist.get_rank() == 0:
            log.info("step %d loss %.4f", step, loss.item())
    if dist.get_rank() == 0:
        clock.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
