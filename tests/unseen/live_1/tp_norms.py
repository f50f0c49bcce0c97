"""Tensor parallel block; all ranks compute the norms, one of them prints."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Block(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.a = nn.Linear(d, 64)
        self.b = nn.Linear(64, d)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


def norms(model):
    out = {}
    for name, p in model.named_parameters():
        t = p.full_tensor() if isinstance(p, DTensor) else p
        out[name] = round(t.norm().item(), 3)
    return out


def pretty(d):
    time.sleep(2)  # asks the terminal service for the width
    return " ".join(f"{k}={v}" for k, v in d.items())


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(4)
    model = parallelize_module(Block(), mesh, {"a": ColwiseParallel(), "b": RowwiseParallel()})
    opt = torch.optim.SGD(model.parameters(), 1e-2, foreach=False)
    for step in range(15):
        torch.manual_seed(step)
        x = torch.randn(8, 16)
        loss = (model(x) - x.roll(1)).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 5 == 4:
            values = norms(model)
            if rank == 0:
                print("step", step, pretty(values), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
