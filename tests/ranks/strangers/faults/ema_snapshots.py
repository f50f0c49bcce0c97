#: n=4 ranks=0 cause=lock tier=error set=2
"""Image model with an EMA copy. Rank 0 writes snapshots of the EMA weights in
the background and keeps a journal of what happened when."""
import io
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP


class Journal:
    """Append-only event log; `session` keeps several entries together."""

    def __init__(self):
        self.lock = threading.RLock()
        self.lines = []

    def append(self, text):
        with self.lock:  #: LINE
            self.lines.append(f"{time.time():.3f} {text}")

    def session(self):
        return self.lock


class Ema:
    def __init__(self, model, decay=0.98):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}
        self.lock = threading.RLock()
        self.updates = 0

    def update(self, model, journal):
        with self.lock:
            for k, v in model.state_dict().items():
                self.shadow[k].lerp_(v.detach(), 1 - self.decay)
            self.updates += 1
            if self.updates % 2 == 0:
                journal.append(f"ema update {self.updates}")

    def dump(self):
        buf = io.BytesIO()
        with self.lock:  #: LINE
            torch.save(self.shadow, buf)
        return buf.getvalue()


class SnapshotWriter:
    def __init__(self, ema, journal):
        self.ema, self.journal = ema, journal
        self.begun = threading.Event()
        self.last = None

    def start(self, step):
        self.begun.clear()
        threading.Thread(target=self._write, args=(step,), daemon=True, name="snapshot").start()
        self.begun.wait()

    def _write(self, step):
        with self.journal.session():
            self.begun.set()
            self.journal.append(f"snapshot {step}: waiting for quota")
            time.sleep(1.5)  # ask the quota service
            self.last = self.ema.dump()
            self.journal.append(f"snapshot {step}: {len(self.last)} bytes")


def make_model():
    torch.manual_seed(12)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 5 * 5, 10)
    )


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    ddp = DDP(make_model())
    ddp.register_comm_hook(None, default_hooks.allreduce_hook)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.02, momentum=0.9)
    gen = torch.Generator().manual_seed(rank)

    ema = journal = writer = None
    if rank == 0:
        journal = Journal()
        ema = Ema(ddp.module)
        writer = SnapshotWriter(ema, journal)

    for step in range(400):
        time.sleep(0.16)
        images = torch.rand(6, 1, 12, 12, generator=gen)
        labels = torch.randint(10, (6,), generator=gen)
        loss = nn.functional.cross_entropy(ddp(images), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if ema is not None:
            if step and step % 22 == 0:
                print("FREEZE", time.time(), flush=True)
                writer.start(step)
            ema.update(ddp.module, journal)
            if step % 10 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
