import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def build(width=448):
    return nn.Sequential(
        nn.Linear(60, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 8),
    )


def main(steps=60):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    x = torch.randn(4608, 60, generator=g)
    data = TensorDataset(x, x[:, :8].abs().argmax(1))
    sampler = DistributedSampler(data)
    order = DataLoader(range(len(data)), batch_size=256, sampler=sampler, drop_last=True)
    model = DDP(build())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times, step, epoch = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        log = open(os.path.join(folder, f"log{rank}.jsonl"), "w")
        while step < steps:
            sampler.set_epoch(epoch)
            for i in order:
                begin = time.perf_counter()
                rows, target = data[i]
                out = model(rows)
                loss = nn.functional.cross_entropy(out, target)
                opt.zero_grad()
                loss.backward()
                opt.step()
                if step % 10 == 9:
                    numbers = torch.stack([loss.detach(), (out.argmax(1) == target).float().mean(), out.detach().abs().max()])
                    dist.all_reduce(numbers)
                    if rank == 0:
                        a, b, c = (numbers / world).tolist()
                        print(json.dumps({"step": step, "loss": a, "accuracy": b, "largest": c}), file=log, flush=True)
                times.append(1e3 * (time.perf_counter() - begin))
                step += 1
                if step == steps:
                    break
            epoch += 1
        log.close()
        if rank == 0:
            torch.save(model.module.state_dict(), os.path.join(folder, "last.pt"))
        dist.barrier()
    if rank == 0:
        times = times[3:]
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
