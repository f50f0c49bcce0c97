"""Checkpoints are serialised and copied by a small executor."""
import io
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist


class Saver:
    def __init__(self, copies, workers):
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix="saver")
        self.copies = copies
        self.folder = tempfile.mkdtemp()
        self.last = None

    def submit(self, state, step):
        self.wait()
        self.last = self.pool.submit(self._save, state, step)

    def _save(self, state, step):
        buf = io.BytesIO()
        torch.save(state, buf)
        blob = buf.getvalue()
        if step < 20:
            names = [self._copy(blob, step, 0)]
        else:
            futs = [self.pool.submit(self._copy, blob, step, c) for c in range(self.copies)]
            names = [f.result() for f in futs]  #: LINE
        return names

    def _copy(self, blob, step, c):
        path = os.path.join(self.folder, f"{step}_{c}.pt")
        with open(path, "wb") as fh:
            fh.write(blob)
        return path

    def wait(self):
        if self.last is not None:
            for name in self.last.result():  #: LINE
                assert os.path.exists(name)


def cpu_share(rank):
    return 1 if rank == 0 else 3


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Linear(64, 64)
    saver = Saver(copies=2, workers=cpu_share(rank))
    for step in range(1, 61):
        model(torch.randn(8, 64)).pow(2).mean().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad = None
        if step % 10 == 0:
            saver.submit(model.state_dict(), step)
            print(f"rank {rank} submitted {step}", flush=True)
    saver.wait()
    dist.barrier()
    dist.destroy_process_group()


main()
