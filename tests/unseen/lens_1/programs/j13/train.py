import logging
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

logging.basicConfig(level=os.environ.get("LOGLEVEL", "INFO"), format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("train")

STEPS = 28


def gradient_report(model):
    parts = []
    for name, p in model.named_parameters():
        if p.grad is not None:
            parts.append(f"{name}: norm={p.grad.norm():.4f} {p.grad.flatten()[:400]}")
    return "\n".join(parts)


def build():
    layers = []
    for _ in range(6):
        layers += [nn.Linear(192, 192), nn.LayerNorm(192), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(192, 10))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    rank = dist.get_rank()
    model = DDP(build())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    gen = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        if step == 3:
            started = time.perf_counter()
        x = torch.randn(512, 192, generator=gen)
        y = torch.randint(0, 10, (512,), generator=gen)
        loss = loss_fn(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        if log.isEnabledFor(logging.DEBUG):
            log.debug("gradients at step %d\n%s", step, gradient_report(model))
        opt.step()
        if rank == 0 and step % 10 == 0:
            log.info("step %d loss %.4f", step, loss.item())
    if rank == 0:
        log.info("%.2f ms/step", (time.perf_counter() - started) / (STEPS - 3) * 1e3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
