"""Embedding cache that spills cold rows to disk in a background thread."""
import os
import tempfile
import threading
import time

import torch
import torch.distributed as dist


class RowCache:
    def __init__(self, capacity, spill):
        self.rows = {}
        self.capacity = capacity
        self.rows_lock = threading.Lock()
        self.disk_lock = threading.Lock()
        self.dir = tempfile.mkdtemp()
        self.spill = spill
        self.written = 0
        if spill:
            threading.Thread(target=self._spiller, name="spiller", daemon=True).start()

    def _spiller(self):
        while True:
            time.sleep(0.2)
            with self.disk_lock:
                victims = sorted(self.rows)[self.capacity:]
                self._flush_dir()
                with self.rows_lock:  #: LINE
                    for v in victims:
                        torch.save(self.rows.pop(v), os.path.join(self.dir, str(v)))
                        self.written += 1

    def _flush_dir(self):
        fd = os.open(self.dir, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        time.sleep(0.05)

    def put(self, key, row):
        with self.rows_lock:
            self.rows[key] = row

    def snapshot(self):
        with self.rows_lock:
            n = len(self.rows)
            time.sleep(0.25)  # rows are copied out one by one
            with self.disk_lock:  #: LINE
                return n, self.written


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    cache = RowCache(50, spill=rank == 2)
    for step in range(200):
        for k in range(4):
            cache.put(step * 4 + k, torch.randn(8))
        if step % 10 == 9:
            n, w = cache.snapshot()
            stat = torch.tensor([float(n), float(w)])
            dist.all_reduce(stat)
            if rank == 0:
                print(f"step {step}: rows {stat[0]:.0f} on disk {stat[1]:.0f}", flush=True)
        time.sleep(0.01)
    dist.barrier()
    dist.destroy_process_group()


main()
