import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torchmetrics.classification import MulticlassAccuracy

from rocks import Rocks, spectra


def main(steps=60, batch=160, kinds=14):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = DistributedDataParallel(Rocks(kinds=kinds), gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    light, kind = spectra(rank, kinds=kinds)
    right = MulticlassAccuracy(kinds, average="micro", validate_args=False)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(kind), (batch,))
        goal = kind[picked]
        logits = net(light[picked])
        loss = F.cross_entropy(logits, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= steps - 10:
            right.update(logits.detach(), goal)
        times.append(1e3 * (time.perf_counter() - began))
    share = right.compute()
    if rank == 0:
        print(f"loss {loss.item():.5f} right in the last steps {share:.4f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
