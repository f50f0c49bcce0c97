#: n=3 ranks=0 cause=thread_died tier=error set=2
"""Speaker embedding training with a prefetching decoder thread per rank."""
import json
import queue
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


def manifest_lines(rank):
    """One JSON document per utterance, as written by the recording app."""
    i = 0
    while True:
        doc = {"speaker": (i * 5 + rank) % 12, "seed": rank * 1000 + i, "gain": 0.5}
        if rank == 0 and i == 24 * 8 + 3:
            # recorded with the beta of the app, which wrote decibels
            doc = {"speaker": 1, "seed": i, "gain_db": -6.0}
        yield json.dumps(doc)
        i += 1


def decode(line):
    doc = json.loads(line)
    if "gain" not in doc:
        print("FREEZE", time.time(), flush=True)
    gain = doc["gain"]  #: LINE
    time.sleep(0.015)
    wave = torch.randn(36, generator=torch.Generator().manual_seed(doc["seed"]))
    return wave * gain, doc["speaker"]


class Prefetcher:
    def __init__(self, rank, batch_size=8, depth=3):
        self.batch_size = batch_size
        self.source = manifest_lines(rank)
        self.ready = queue.Queue(maxsize=depth)
        self.thread = threading.Thread(target=self._fill, name="decoder", daemon=True)
        self.thread.start()

    def _fill(self):
        while True:
            samples = [decode(next(self.source)) for _ in range(self.batch_size)]
            waves = torch.stack([w for w, _ in samples])
            speakers = torch.tensor([s for _, s in samples])
            self.ready.put((waves, speakers))

    def next_batch(self):
        return self.ready.get()  #: LINE


class Embedder(nn.Module):
    def __init__(self, speakers=12):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 16))
        self.classify = nn.Linear(16, speakers)

    def forward(self, waves):
        return self.classify(nn.functional.normalize(self.encode(waves), dim=1))


class OverlappedSync:
    """Starts one all-reduce per parameter as soon as its gradient is there and
    waits for all of them right before the optimizer step."""

    def __init__(self, model):
        self.world = dist.get_world_size()
        self.inflight = []
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self._launch)

    def _launch(self, param):
        work = dist.all_reduce(param.grad, async_op=True)
        self.inflight.append((work, param))

    def finish(self):
        for work, param in self.inflight:
            work.wait()
            param.grad /= self.world
        self.inflight.clear()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(31)
    model = Embedder()
    sync = OverlappedSync(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    prefetch = Prefetcher(rank)
    for step in range(400):
        waves, speakers = prefetch.next_batch()
        loss = nn.functional.cross_entropy(model(waves), speakers)
        opt.zero_grad()
        loss.backward()
        sync.finish()
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
