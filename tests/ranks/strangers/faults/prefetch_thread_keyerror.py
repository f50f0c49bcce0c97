#: n=4 ranks=0 cause=thread_died tier=error
import queue
import random
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

CLASSES = {"cat": 0, "dog": 1, "bird": 2}


class AnnotationReader:
    def __init__(self, rank, odd_record):
        self.rng = random.Random(rank)
        self.odd_record = odd_record
        self.served = 0

    def record(self):
        self.served += 1
        name = self.rng.choice(list(CLASSES))
        if self.served == self.odd_record:
            name = "unlabelled"
        return {"name": name, "pixels": [self.rng.random() for _ in range(24)]}


class Prefetcher(threading.Thread):
    def __init__(self, reader, batch_size=4, depth=2):
        super().__init__(name="prefetch", daemon=True)
        self.reader, self.batch_size = reader, batch_size
        self.ready = queue.Queue(maxsize=depth)

    def encode(self, record):
        if record["name"] not in CLASSES:
            print("FREEZE", time.time(), flush=True)
        return torch.tensor(record["pixels"]), CLASSES[record["name"]]  #: LINE

    def run(self):
        while True:
            time.sleep(0.15)
            rows = [self.encode(self.reader.record()) for _ in range(self.batch_size)]
            self.ready.put((torch.stack([r[0] for r in rows]), torch.tensor([r[1] for r in rows])))

    def next_batch(self):
        return self.ready.get()  #: LINE


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.classifier = nn.Linear(32, len(CLASSES))

    def forward(self, x):
        return self.classifier(self.features(x))


def train(model, opt, prefetcher, steps, rank):
    correct = seen = 0
    for step in range(steps):
        x, y = prefetcher.next_batch()
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        correct += (logits.argmax(1) == y).sum().item()
        seen += len(y)
        if rank == 1 and step % 10 == 0:
            print(f"step {step} acc {correct / seen:.3f}", flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(17)
    model = DDP(SmallNet())
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    odd = 4 * random.Random(2323).randint(19, 30) + 2
    prefetcher = Prefetcher(AnnotationReader(rank, odd if rank == 0 else None))
    prefetcher.start()
    train(model, opt, prefetcher, steps=90, rank=rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
