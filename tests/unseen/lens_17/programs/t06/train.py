import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F

from language import sharded, weight_norm


def main(steps=60, batch=12, length=48):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = sharded(dist.get_world_size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    g = torch.Generator().manual_seed(rank)
    times, scales = [], []
    for step in range(steps):
        began = time.perf_counter()
        languages = torch.randint(0, 40, (batch,), generator=g)
        lines = (6 * languages[:, None] + torch.randint(0, 12, (batch, length), generator=g)) % 256
        loss = F.cross_entropy(model(lines), languages)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scales.append(model.scale.full_tensor().tolist())
        times.append(1e3 * (time.perf_counter() - began))
        if step % 20 == 19:
            norm = weight_norm(model)
            if rank == 0:
                print(f"{step} loss {loss.item():.4f} norm {norm:.2f} scale {scales[-1]}")
    if rank == 0:
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
