"""Tensor parallel MLP with weight statistics in the log."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class FFN(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.w1 = nn.Linear(d, 4 * d, bias=False)
        self.w2 = nn.Linear(4 * d, d, bias=False)

    def forward(self, x):
        return self.w2(torch.nn.functional.gelu(self.w1(x)))


class Model(nn.Module):
    def __init__(self, n=2):
        super().__init__()
        self.blocks = nn.ModuleList(FFN() for _ in range(n))

    def forward(self, x):
        for b in self.blocks:
            x = x + b(x)
        return x


def parallel(model, mesh):
    plan = {"w1": ColwiseParallel(), "w2": RowwiseParallel()}
    for b in model.blocks:
        parallelize_module(b, mesh, plan)
    return model


def weight_report(model):
    lines = []
    for name, p in model.named_parameters():
        full = p.full_tensor()  #: LINE
        lines.append(f"{name}:{full.float().std():.4f}")
    return " ".join(lines)


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    torch.manual_seed(0)
    model = parallel(Model(), mesh)
    opt = torch.optim.SGD(model.parameters(), 0.01, foreach=False)
    verbose = mesh.get_local_rank() == 0
    for step in range(24):
        torch.manual_seed(step)
        x = torch.randn(4, 32)
        loss = (model(x) - x.flip(0)).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if verbose:
            print("step", step, f"{loss.item():.4f}", flush=True)
            if step == 15:
                print(weight_report(model), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
