#: n=4 ranks=3 cause=slow_periodic tier=notice
import hashlib
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class AuditTrail:
    """Chains a digest over all losses; every few steps the chain is re-verified from the start."""

    def __init__(self, every, enabled_from, rounds=4000):
        self.every, self.enabled_from, self.rounds = every, enabled_from, rounds
        self.entries = []
        self.root = b"genesis"

    def append(self, step, loss):
        self.entries.append(f"{step}:{loss:.6f}".encode())

    def due(self, step):
        return self.enabled_from is not None and step >= self.enabled_from and step % self.every == 0

    def verify(self, seconds):
        end = time.perf_counter() + seconds  #: LINE
        digest = self.root
        while time.perf_counter() < end:  #: LINE
            for entry in self.entries:  #: LINE
                digest = hashlib.pbkdf2_hmac("sha256", entry, digest, self.rounds)  #: LINE
        return digest.hex()


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(40, 20)
        self.lstm = nn.LSTM(20, 20, batch_first=True)
        self.out = nn.Linear(20, 40)

    def forward(self, ids):
        h, _ = self.lstm(self.emb(ids))
        return self.out(h)


def batches(rank):
    g = torch.Generator().manual_seed(rank)
    while True:
        time.sleep(0.15)
        ids = torch.randint(0, 40, (4, 11), generator=g)
        yield ids[:, :-1], ids[:, 1:]


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(13)
    model = DDP(Seq2Seq())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    start = random.Random(1848).randint(18, 26)
    audit = AuditTrail(every=8, enabled_from=start if rank == 3 else None)
    announced = False
    for step, (x, y) in enumerate(batches(rank)):
        if step == 150:
            break
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        audit.append(step, loss.item())
        if audit.due(step):
            if not announced:
                print("FREEZE", time.time(), flush=True)
                announced = True
            audit.verify(seconds=2.5)
        if rank == 0 and step % 10 == 0:
            print(step, f"{loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
