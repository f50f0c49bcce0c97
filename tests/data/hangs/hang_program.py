"""Small programs that really hang, one for each cause; `tools/record_hang_samples.py` runs and records them.

The dumps beside this file name its lines: record again after a change. Run with RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT set: ``python hang_program.py NAME FOLDER``.
"""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

STEPS = 4
beats = 0


def step(x, group=None):
    global beats
    dist.all_reduce(x, group=group)
    beats += 1


def sleep_in_step(rank, folder):
    x = torch.ones(8)
    for i in range(STEPS):
        if rank == 1 and i == 3:
            time.sleep(3600)
        step(x)


def lock_held(rank, folder):
    x, lock = torch.ones(8), threading.Lock()
    if rank == 3:
        lock.acquire()
    for i in range(STEPS):
        if i == 2:
            with lock:
                x.add_(1)
        step(x)


def event_never_set(rank, folder):
    x, event = torch.ones(8), threading.Event()
    for i in range(STEPS):
        if rank == 0 and i == 2:
            event.wait()
        step(x)


def file_without_end(rank, folder):
    x = torch.ones(8)
    for i in range(STEPS):
        if rank == 2 and i == 2:
            with open(folder / "fifo", "rb") as file:  # noqa: PTH123 (a plain open keeps the stack here)
                file.read()
        step(x)


def child_never_ends(rank, folder):
    x = torch.ones(8)
    for i in range(STEPS):
        if rank == 0 and i == 3:
            subprocess.run([sys.executable, "-S", "-c", "import time; time.sleep(3600)"])
        step(x)


def spins(rank, folder):
    x = torch.ones(8)
    for i in range(STEPS):
        n = 0
        while rank == 3 and i == 2:
            n += 1
        step(x)


def store_key_missing(rank, folder):
    x, store = torch.ones(8), dist.distributed_c10d._get_default_store()
    for i in range(STEPS):
        if rank == 1 and i == 2:
            store.get("the-key-that-nobody-sets")
        step(x)


class StuckData(torch.utils.data.Dataset):
    def __init__(self, is_stuck):
        self.is_stuck = is_stuck

    def __len__(self):
        return 16

    def __getitem__(self, index):
        if self.is_stuck and index == 3:
            threading.Event().wait()
        return torch.ones(8)


def data_worker_stuck(rank, folder):
    loader = torch.utils.data.DataLoader(StuckData(rank == 2), batch_size=1, num_workers=1)
    for x in loader:
        step(x)


def save_never_ends(rank, folder):
    x = torch.ones(8)
    for i in range(STEPS):
        if rank == 0 and i == 2:
            save_checkpoint(x, folder)
        step(x)


def save_checkpoint(x, folder):
    with open(folder / "fifo", "wb") as file:  # noqa: PTH123 (a plain open keeps the stack at this line)
        torch.save(x, file)


def skips_one(rank, folder):
    x, other = torch.ones(8), dist.new_group([0, 1, 2, 3])
    for i in range(STEPS):
        if not (rank == 2 and i == 3):
            step(x, other)
        dist.barrier()


def adds_one(rank, folder):
    x, other = torch.ones(8), dist.new_group([0, 1, 2, 3])
    for i in range(STEPS):
        if rank == 1 and i == 3:
            dist.all_gather([torch.ones(8) for _ in range(4)], x, group=other)
        step(x)


def other_operation(rank, folder):
    x = torch.ones(8)
    for i in range(STEPS):
        if rank == 2 and i == 3:
            dist.broadcast(x, src=0)
        else:
            step(x)


def orders_differ(rank, folder):
    x, other = torch.ones(8), dist.new_group([0, 1, 2, 3])
    for i in range(STEPS):
        if i == 3 and rank in (1, 3):
            dist.all_reduce(x, group=other)
            step(x)
        else:
            step(x)
            dist.all_reduce(x, group=other)


def ring_of_receives(rank, folder):
    x = torch.ones(8)
    for i in range(STEPS):
        if i == 3:
            dist.recv(x, src=(rank - 1) % 4)
            dist.send(x, dst=(rank + 1) % 4)
        step(x)


def nobody_sends(rank, folder):
    x = torch.ones(8)
    for i in range(STEPS):
        if rank == 2 and i == 3:
            dist.recv(x, src=0)
        step(x)


def uneven_batches(rank, folder):
    x = torch.ones(8)
    for _ in range(STEPS - 1 if rank == 3 else STEPS):
        step(x)
    dist.barrier()


def first_call_missing(rank, folder):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    x = torch.ones(8)
    for i in range(STEPS):
        if i == 3 and rank == 2:
            time.sleep(3600)
        step(x, mesh["tp"].get_group())
        dist.all_reduce(x, group=mesh["dp"].get_group())


def healthy(rank, folder):
    x = torch.ones(64, 64)
    while True:
        for _ in range(20 + 60 * (rank == 2)):
            x = torch.tanh(x @ x)
        step(x)


def slow_but_alive(rank, folder):
    x = torch.ones(8)
    while True:
        if rank == 2:
            time.sleep(1.5)
        step(x)


def watch(folder, rank):
    """Writes the number of finished steps, and a dump each time that ``dump.N`` appears."""
    number = 0
    while True:
        (folder / f"beat_{rank}").write_text(str(beats))
        if (folder / f"dump.{number}").exists():
            data = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
            path = folder / f"look{number}_rank_{rank}.part"
            path.write_bytes(data)
            path.rename(folder / f"look{number}_rank_{rank}")
            number += 1
        time.sleep(0.05)


def main():
    name, folder = sys.argv[1], Path(sys.argv[2])
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    threading.Thread(target=watch, args=(folder, rank), name="watch", daemon=True).start()
    (folder / f"pid_{rank}").write_text(str(os.getpid()))
    globals()[name](rank, folder)


if __name__ == "__main__":
    main()
