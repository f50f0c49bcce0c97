"""Fine-tune scaling vectors and blocks of a small tower under FSDP2 (2 ranks)."""
import statistics
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from tower import Block, Tower


def shard(model, mesh):
    for block in model.blocks:
        for name, child in block.named_children():
            if name.startswith("scale_"):
                fully_shard(child, mesh=mesh)  #: LINE
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def batches(steps, width):
    g = torch.Generator().manual_seed(11 + dist.get_rank())
    for _ in range(steps):
        yield torch.randn(16, width, generator=g), torch.randn(16, 1, generator=g)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = shard(Tower([Block(192) for _ in range(2)], 192), mesh)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    took = []
    for x, y in batches(30, 192):
        t = time.perf_counter()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        took.append(time.perf_counter() - t)
    if dist.get_rank() == 0:
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
