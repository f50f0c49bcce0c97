"""Node embeddings, checkpoints written by a background thread on rank 0."""
import gzip
import os
import threading
import time

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class BackgroundSaver:
    """Writes checkpoints beside the training; one write at a time."""

    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()
        self.thread = None
        self.written = []
        os.makedirs(folder, exist_ok=True)

    def save(self, state, step):
        with self.lock:
            if self.thread is not None:
                self.thread.join()
            self.thread = threading.Thread(target=self._write, args=(state, step), name="saver")
            self.thread.start()

    def _write(self, state, step):
        path = os.path.join(self.folder, f"gnn-{step}.pt.gz")
        with gzip.open(path + ".tmp", "wb") as f:
            torch.save(state, f)
        os.replace(path + ".tmp", path)
        with self.lock:
            self.written.append(path)
            for old in self.written[:-2]:
                if os.path.exists(old):
                    os.remove(old)


class SageLayers(nn.Module):
    def __init__(self, nodes=20000, dim=64):
        super().__init__()
        self.emb = nn.Embedding(nodes, dim, sparse=False)
        self.w1 = nn.Linear(2 * dim, dim)
        self.w2 = nn.Linear(dim, dim)

    def forward(self, node, neighbours):
        near = self.emb(neighbours).mean(1)
        return self.w2(torch.relu(self.w1(torch.cat([self.emb(node), near], 1))))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(SageLayers())
    opt = torch.optim.Adagrad(model.parameters(), lr=0.01)
    saver = BackgroundSaver(os.environ.get("OUT_DIR", "out")) if rank == 0 else None
    g = torch.Generator().manual_seed(rank)
    for step in range(1, 301):
        node = torch.randint(0, 20000, (64,), generator=g)
        near = torch.randint(0, 20000, (64, 10), generator=g)
        target = model.module.emb(node).detach()
        loss = (model(node, near) - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if saver is not None and step % 10 == 0:
            saver.save({k: v.clone() for k, v in model.module.state_dict().items()}, step)
            print(f"{time.strftime('%H:%M:%S')} step {step} loss {loss.item():.5f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
