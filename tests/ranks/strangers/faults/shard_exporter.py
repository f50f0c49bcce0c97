#: n=4 ranks=3 cause=store_wait|sleep tier=notice set=2
"""Trains a small ranker. Every ten steps rank 0 announces a new snapshot in a
key-value store and rank 3 (which has the fast uplink) picks it up."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

STEPS_PER_EPOCH = 16
EXPORT_EVERY = 10
EXPORTER = 3


def open_snapshot_store(rank):
    """A private TCPStore, we don't want to pollute the rendezvous store."""
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        port = [store.port]
    else:
        store, port = None, [None]
    dist.broadcast_object_list(port, src=0)
    if store is None:
        store = dist.TCPStore("127.0.0.1", port[0], is_master=False, wait_for_workers=False)
    return store


class Announcer:
    def __init__(self, store):
        self.store = store

    def publish(self, epoch, step, model):
        digest = sum(p.abs().sum().item() for p in model.parameters())
        self.store.set(f"snapshot/{epoch}/{step}", f"{digest:.6f}")


class Exporter:
    """Uploads what rank 0 has announced."""

    def __init__(self, store):
        self.store = store
        self.uploaded = []

    def upload(self, global_step):
        key = f"snapshot/{global_step // STEPS_PER_EPOCH}/{global_step}"
        if global_step >= STEPS_PER_EPOCH:
            print("FREEZE", time.time(), flush=True)
        while not self.store.check([key]):  #: LINE
            time.sleep(0.25)  #: LINE
        self.uploaded.append((key, self.store.get(key).decode()))


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(14, 10)
        self.doc = nn.Linear(22, 10)

    def forward(self, q, d):
        return (self.query(q) * self.doc(d)).sum(dim=1)


def step_once(model, opt, gen, world):
    time.sleep(0.18)
    q, good = torch.randn(8, 14, generator=gen), torch.randn(8, 22, generator=gen)
    bad = good.flip(0)
    loss = nn.functional.softplus(model(q, bad) - model(q, good)).mean()
    opt.zero_grad()
    loss.backward()
    handles = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
    for h in handles:
        h.wait()
    for p in model.parameters():
        p.grad /= world
    opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    store = open_snapshot_store(rank)
    announcer = Announcer(store) if rank == 0 else None
    exporter = Exporter(store) if rank == EXPORTER else None

    torch.manual_seed(4)
    model = Ranker()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    gen = torch.Generator().manual_seed(rank + 1)
    global_step = 0
    for epoch in range(20):
        for step in range(STEPS_PER_EPOCH):
            loss = step_once(model, opt, gen, world)
            if global_step and global_step % EXPORT_EVERY == 0:
                if announcer:
                    announcer.publish(epoch, step, model)
                if exporter:
                    exporter.upload(global_step)
            if rank == 0 and global_step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss:.4f}", flush=True)
            global_step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
