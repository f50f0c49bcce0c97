import statistics
from time import perf_counter

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from blocks import TextModel

PIECES = 2


def main(steps=60, batch=4):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = TextModel()
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    torch.manual_seed(10 + rank)
    text = torch.randint(800, (600, 48))
    times = []
    for step in range(steps):
        begin = perf_counter()
        for piece in range(PIECES):
            last = piece == PIECES - 1
            model.set_requires_gradient_sync(last)
            model.set_reshard_after_backward(last)
            ids = text[torch.randint(600, (batch,))]
            hidden = torch.rand(ids.shape) < 0.2
            logits = model(ids.masked_fill(hidden, 0))
            loss = torch.nn.functional.cross_entropy(logits[hidden], ids[hidden]) / PIECES
            loss.backward()
        opt.step()
        opt.zero_grad()
        times.append(1e3 * (perf_counter() - begin))
    if rank == 0:
        times = times[3:]
        print(f"loss {PIECES * loss.item():.3f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
