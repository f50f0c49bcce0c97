"""DDP training that prints its loss in each step."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from pace import Pace

STEPS = 64
BATCH = 400


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(256, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(),
                              nn.Linear(768, 768), nn.GELU(), nn.Linear(768, 30)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    pace = Pace()
    for step in range(STEPS):
        x = torch.randn(BATCH, 256, generator=generator)
        y = x[:, :30].argmax(1)
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        accuracy = (logits.argmax(1) == y).float().mean().item()
        if not torch.isfinite(loss):
            raise RuntimeError("loss is not finite")
        if rank == 0:
            print(f"step {step:3d} loss {loss.item():.4f} norm {norm.item():.3f} accuracy {accuracy:.3f}", flush=True)
        pace.tick()
    if rank == 0:
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
