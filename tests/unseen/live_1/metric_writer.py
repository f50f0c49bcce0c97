"""Training loop with an asynchronous metric writer on the chief."""
import json
import queue
import threading
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F


class Writer:
    def __init__(self, path, depth=8):
        self.q = queue.Queue(maxsize=depth)
        self.path = path
        self.t = threading.Thread(target=self._pump, name="metric-writer", daemon=True)
        self.t.start()

    def _pump(self):
        with open(self.path, "w") as fh:
            while True:
                row = self.q.get()
                if row is None:
                    return
                fh.write(json.dumps(row) + "\n")  #: LINE
                fh.flush()

    def add(self, **row):
        self.q.put(row)  #: LINE

    def close(self):
        self.q.put(None)
        self.t.join()


class Null:
    def add(self, **row):
        pass

    def close(self):
        pass


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    writer = Writer(tempfile.mktemp(suffix=".jsonl")) if rank == 0 else Null()
    torch.manual_seed(5)
    w = torch.zeros(10, requires_grad=True)
    best = float("inf")
    for step in range(80):
        g = torch.Generator().manual_seed(step * world + rank)
        x = torch.randn(16, 10, generator=g)
        y = x.sum(1) + 0.1
        loss = F.mse_loss(x @ w, y)
        loss.backward()
        dist.all_reduce(w.grad)
        gnorm = w.grad.norm() / world
        with torch.no_grad():
            w -= 0.05 * w.grad / world
            w.grad = None
        row = {"step": step, "loss": loss.item()}
        if loss.item() < 0.5 * best:
            best = loss.item()
            row["gnorm"] = gnorm if step > 20 else gnorm.item()
        writer.add(**row)
        if step % 10 == 0:
            print(f"r{rank} step {step} loss {loss.item():.4f}", flush=True)
    writer.close()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
