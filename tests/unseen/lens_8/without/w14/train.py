"""DDP training of a small transformer, with validation."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from evaluation import evaluate
from pace import Pace

STEPS = 64
BATCH, LENGTH, WIDTH = 16, 48, 192
EVAL_EVERY = 8


def build():
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Linear(32, WIDTH), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
                         nn.Flatten(), nn.Linear(LENGTH * WIDTH, 8))


def make(count, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, LENGTH, 32, generator=generator)
    return TensorDataset(x, (x[:, 0].sum(-1) > 0).long())


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    train, valid = make(STEPS * BATCH * world, 1), make(176, 2)
    loader = DataLoader(train, BATCH, sampler=DistributedSampler(train, world, rank))
    valid_loader = DataLoader(valid, BATCH)
    model = DDP(build())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    pace = Pace()
    for step, (x, y) in enumerate(loader, 1):
        model.train()
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % EVAL_EVERY == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
        pace.tick()
    accuracy = evaluate(model.module, valid_loader)
    if rank == 0:
        print(f"validation {accuracy:.3f}")
    if rank == 0:
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
