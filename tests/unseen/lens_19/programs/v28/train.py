import statistics
import time

import torch
import torch.distributed as dist

from centre import Centre
from clips import Clips, mix


def share(parameters):
    """The mean of the gradients of all ranks, in one message."""
    grads = [p.grad for p in parameters]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for g, mean in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(mean.view_as(g))


def main(steps=60):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Clips()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
    centre = Centre(64)
    torch.manual_seed(1 + rank)
    clips, names = torch.randn(3000, 400), torch.randint(0, 12, (3000,))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        unnamed, named = mix(step, rank)
        optimizer.zero_grad()
        loss, outputs = model.unnamed(clips[torch.randint(0, 3000, (unnamed,))], centre.now())
        loss.backward()
        centre.update(outputs)
        picked = torch.randint(0, 3000, (named,))
        other = model.named(clips[picked], names[picked])
        other.backward()
        share(parameters)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f} {other.item():.5f} centre {centre.now().norm():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
