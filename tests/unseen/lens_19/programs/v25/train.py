import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from clip import clip
from molecules import Molecules


def main(steps=60, batch=32):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = fully_shard(Molecules(), mesh=mesh, reshard_after_forward=False)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
    signs = torch.randint(0, 40, (3000, 40), generator=torch.Generator().manual_seed(rank))
    dissolves = ((signs % 7).sum(1) > 119).float()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 3000, (batch,))
        loss = F.binary_cross_entropy_with_logits(model(signs[picked])[:, 0], dissolves[picked])
        optimizer.zero_grad()
        loss.backward()
        clip(parameters, 1.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
