"""FSDP2 with a full state dict at the end; the first rank writes it slowly."""
import io
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard


class Tower(nn.Module):
    def __init__(self, d=24, n=3):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(d, d) for _ in range(n))

    def forward(self, x):
        for p in self.parts:
            x = x + torch.relu(p(x))
        return x


def write_slowly(sd):
    total = 0
    for name, t in sd.items():
        buf = io.BytesIO()
        torch.save(t, buf)
        total += len(buf.getvalue())
        time.sleep(1.2)
        print("wrote", name, flush=True)
    return total


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Tower()
    for p in model.parts:
        fully_shard(p)
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(12):
        x = torch.randn(6, 24)
        loss = (model(x) - 2 * x).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if rank == 0:
            print("step", step, round(loss.item(), 3), flush=True)
    sd = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if rank == 0:
        print("bytes", write_slowly(sd), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
