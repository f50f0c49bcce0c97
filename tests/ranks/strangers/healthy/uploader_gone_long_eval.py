#: n=4 ok exit=0
import queue
import random
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Uploader(threading.Thread):
    """Best effort: training never waits for it."""

    def __init__(self, rank):
        super().__init__(name="uploader", daemon=True)
        self.rank, self.inbox = rank, queue.Queue()
        self.sent = 0

    def run(self):
        while True:
            item = self.inbox.get()
            if self.rank == 2 and item["step"] == 12:
                raise ConnectionResetError("tracker closed the connection")
            self.sent += 1

    def offer(self, **item):
        self.inbox.put(item)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 4))

    def forward(self, x):
        return self.net(x)


def iou(a, b):
    left, right = max(a[0], b[0]), min(a[0] + a[2], b[0] + b[2])
    top, bottom = max(a[1], b[1]), min(a[1] + a[3], b[1] + b[3])
    inter = max(0.0, right - left) * max(0.0, bottom - top)
    return inter / (a[2] * a[3] + b[2] * b[3] - inter + 1e-9)


@torch.no_grad()
def mean_overlap(model, seconds):
    end, scores = time.time() + seconds, []
    while time.time() < end:
        boxes = model(torch.randn(40, 30)).abs().tolist()
        scores.append(max(iou(a, b) for a in boxes for b in boxes if a is not b))
    return sum(scores) / max(1, len(scores))


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    uploader = Uploader(rank)
    uploader.start()
    torch.manual_seed(8)
    model = DDP(Detector())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    long_eval = random.Random(time.time_ns()).uniform(10, 45)
    for step in range(42):
        time.sleep(0.15)
        x = torch.randn(8, 30)
        loss = (model(x) - x[:, :4].abs()).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        uploader.offer(step=step, loss=loss.item())
        if step == 26:
            overlap = torch.tensor([mean_overlap(model.module, long_eval if rank == 2 else 0.5)])
            dist.all_reduce(overlap)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
