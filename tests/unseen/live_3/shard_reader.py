"""Samples are read by a generator that closes its epoch together on all ranks."""
import time

import torch
import torch.distributed as dist

FEATURES, EPOCHS = 16, 12


def epoch_stream(epoch, rank):
    g = torch.Generator().manual_seed(epoch * 1000 + rank)
    served = torch.zeros(1)
    try:
        for i in range(24):
            time.sleep(0.22)
            row = torch.randn(8, FEATURES, generator=g)
            if epoch == 5 and i == 20 and rank == 0:
                row[0, 0] = float("nan")
            served += 1
            yield row
    finally:
        dist.all_reduce(served)
        if rank == 0:
            print(f"epoch {epoch}: {int(served)} batches served", flush=True)


def clean_rows(epoch, rank):
    stream = epoch_stream(epoch, rank)
    for row in stream:
        if torch.isnan(row).any():
            print(f"rank {rank}: bad row, rest of epoch {epoch} is filled up", flush=True)
            stream.close()  #: LINE
            break
        yield row
    else:
        return
    for _ in range(4):
        yield torch.zeros(8, FEATURES)


def update(weight, row):
    target = row.sum(dim=1)
    err = row @ weight - target
    grad = row.t() @ err / len(row)
    dist.all_reduce(grad)
    return weight - 0.05 * grad / dist.get_world_size(), err.pow(2).mean()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weight = torch.zeros(FEATURES)
    for epoch in range(EPOCHS):
        for row in clean_rows(epoch, rank):
            weight, loss = update(weight, row)
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
