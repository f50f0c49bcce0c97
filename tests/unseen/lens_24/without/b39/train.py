"""Finds the passage of a manual that answers a question: two towers, negatives from the batches of all ranks."""
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from manuals import Questions, Towers, retrieval_loss


def main(steps=60, batch=512):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(5)
    pairs = Questions()
    model = DistributedDataParallel(Towers(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    picker = torch.Generator().manual_seed(100 + rank)
    times = []
    for step in range(steps):
        start = time.perf_counter()
        questions, passages = pairs.draw(batch, picker)
        loss = retrieval_loss(*model(questions, passages))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        times.append(1000 * (time.perf_counter() - start))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
