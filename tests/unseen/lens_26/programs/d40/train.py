import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from nets import Sails


def sail(count=30000, inputs=40, ropes=14):
    made = torch.Generator().manual_seed(31)
    wind = torch.randn(count, inputs, generator=made)
    return wind, (wind @ torch.randn(inputs, ropes, generator=made) / 4).tanh()


def main(steps=60, batch=320, longest=0.5):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(0)
    wind, pull = (whole[rank::world].contiguous() for whole in sail())
    model = Sails()
    for stage in model.stages:
        fully_shard(stage, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    times, norms = [], []
    for step in range(steps):
        began = time.perf_counter()
        at = step * batch % (len(wind) - batch)
        loss = F.huber_loss(model(wind[at : at + batch]), pull[at : at + batch])
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), longest)
        norms.append(norm.full_tensor())
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.6f}, gradient {torch.stack(norms).mean().item():.4f} on average")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
