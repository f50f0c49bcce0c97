"""A feeder thread decodes samples into a queue while the main thread trains with DDP."""
import queue
import struct
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

RECORD = struct.Struct("<17f")


def pack(step, rank):
    g = torch.Generator().manual_seed(step * 6 + rank)
    rows = torch.randn(32, 17, generator=g)
    blob = b"".join(RECORD.pack(*row.tolist()) for row in rows)
    if rank == 2 and step == 130:
        blob = blob[:-5]  # the last block of this file was never flushed
    return blob


def decode(blob):
    rows = [RECORD.unpack_from(blob, i) for i in range(0, len(blob), RECORD.size)]  #: LINE
    table = torch.tensor(rows)
    return table[:, :16], table[:, 16:]


class Feeder:
    def __init__(self, rank, steps, depth=4):
        self.q = queue.Queue(depth)
        self.rank, self.steps = rank, steps
        threading.Thread(target=self.fill, name="feeder", daemon=True).start()

    def fill(self):
        for step in range(self.steps):
            self.q.put(decode(pack(step, self.rank)))
        self.q.put(None)

    def __iter__(self):
        while True:
            item = self.q.get()
            if item is None:
                return
            yield item


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (x, y) in enumerate(Feeder(rank, 400)):
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.22)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
