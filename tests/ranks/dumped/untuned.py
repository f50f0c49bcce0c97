"""Programs that hang in ways for which no judge was tuned. ``python untuned.py NAME FOLDER``."""

import asyncio
import contextlib
import fcntl
import multiprocessing
import os
import queue
import signal
import socket
import threading

import torch
import torch.distributed as dist
from job import BAD_STEP, FOLDER, main, say, work


def metric_by_threshold(rank, world):
    """A metric is reduced when the loss is high; on one rank it is not."""
    x, parts = torch.ones(64, 64), torch.ones(16)
    for i in range(100):
        work(x)
        dist.all_reduce(x)
        loss = 0.5 if rank == 1 and i == BAD_STEP else 2.0
        if loss < 1.0:
            say("fault")
        if loss > 1.0:
            dist.reduce_scatter(torch.empty(16 // world), list(parts.chunk(world)))
        dist.all_gather_into_tensor(torch.empty(16 * world), parts)


class Patience:
    """Stops when the loss of this rank has not fallen for a while: each rank asks for itself."""

    def __init__(self, turns):
        self.turns = turns

    def is_over(self):
        self.turns -= 1
        return self.turns < 0


def fit(x, patience):
    while not patience.is_over():
        work(x)
        for _ in range(2):
            dist.all_reduce(x)


def early_stop(rank, world):
    fit(torch.ones(64, 64), Patience(BAD_STEP if rank == 2 else BAD_STEP + 5))
    say("fault")
    dist.all_gather_object([None] * world, {"rank": rank})


def download(rank, world):
    """Rank 0 fetches something from a server that accepts and never answers."""
    x = torch.ones(64, 64)
    server = socket.create_server(("127.0.0.1", 0))
    for i in range(100):
        work(x)
        if rank == 0 and i == BAD_STEP:
            say("fault")
            fetch(server.getsockname()[1])
        dist.all_reduce(x)


def fetch(port):
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(b"GET /vocab.json HTTP/1.0\r\n\r\n")
        return line.recv(65536)


def full_queue(rank, world):
    """The writer thread of one rank has ended at an error; the queue to it fills."""
    x, rows = torch.ones(64, 64), queue.Queue(maxsize=2)

    def write():
        for _ in range(BAD_STEP - 2 if rank == 3 else 1000):
            rows.get()

    threading.Thread(target=write, daemon=True).start()
    for i in range(100):
        work(x)
        if i == BAD_STEP:
            say("fault")
        rows.put({"step": i})
        dist.all_reduce(x)


def mesh_compute(rank, world):
    """A mesh of 2 x 2: one rank is busy on its own between the tp call and the dp call."""
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        dist.all_reduce(x, group=mesh.get_group("tp"))
        if rank == 3 and i == BAD_STEP:
            say("fault")
            tokens = tokenise()
            x[0, 0] = len(tokens)
        dist.all_reduce(x, group=mesh.get_group("dp"))


def tokenise():
    words = ["a"]
    while words:
        words = [words[-1] + "b"] if len(words[-1]) < 50 else ["a"]
    return words


def lost_transfer(rank, world):
    """The stages hand a block on; one of them forgets to in one step."""
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if rank == 0:
            if i == BAD_STEP:
                say("fault")
            else:
                dist.isend(x, dst=1, tag=3).wait()
        if rank == 1:
            dist.irecv(x, src=0, tag=3).wait()
        dist.all_reduce(x)


def save_by_one(rank, world):
    """Rank 0 saves; the save of this program waits for everybody."""
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        dist.all_reduce(x)
        if i == BAD_STEP and rank == 0:
            say("fault")
            write_all({"x": x})
        dist.all_gather_into_tensor(torch.empty(16 * world), torch.ones(16))


def write_all(state):
    torch.save(state, FOLDER / "state.pt")
    dist.barrier()


class Rows(torch.utils.data.Dataset):
    """Rows of a file that a worker locks before it reads."""

    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return 40

    def __getitem__(self, index):
        with (FOLDER / f"rows.{self.rank}").open("a") as file:
            if self.rank == 2 and index == BAD_STEP:
                say("fault")
                hold = open(FOLDER / f"rows.{self.rank}", "a")  # noqa: PTH123, SIM115 (held open on purpose)
                fcntl.flock(hold, fcntl.LOCK_EX)
            fcntl.flock(file, fcntl.LOCK_EX)
            return torch.ones(64, 64)


def locked_rows(rank, world):
    for x in torch.utils.data.DataLoader(Rows(rank), batch_size=None, num_workers=2):
        work(x)
        dist.all_reduce(x)


def awaited(rank, world):
    """One rank awaits an event that nobody sets."""
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if rank == 2 and i == BAD_STEP:
            say("fault")
            asyncio.run(upload())
        dist.all_reduce(x)


async def upload():
    done = asyncio.Event()
    await done.wait()


def clean(number):
    if number == 1:
        with contextlib.suppress(OSError):
            os.kill(os.getpid(), signal.SIGKILL)
    return number


def pool_lost(rank, world):
    """One rank maps over a pool of processes, one of which the kernel takes."""
    x = torch.ones(64, 64)
    for i in range(100):
        work(x)
        if rank == 1 and i == BAD_STEP:
            say("fault")
            with multiprocessing.get_context("fork").Pool(2) as pool:
                pool.map(clean, range(4))
        dist.all_reduce(x)


def crossed_groups(rank, world):
    """Two groups of all ranks; half of the ranks ask for the second one first."""
    x, a, b = torch.ones(64, 64), dist.new_group(list(range(world))), dist.new_group(list(range(world)))
    for i in range(100):
        work(x)
        first, second = (b, a) if i == BAD_STEP and rank >= 2 else (a, b)
        if i == BAD_STEP:
            say("fault")
        dist.broadcast(x, src=0, group=first)
        dist.broadcast(x, src=0, group=second)


def sharded_uneven(rank, world):
    """FSDP2: one rank has fewer batches and goes on to its evaluation, which reduces a loss."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32))
    fully_shard(model)
    for _ in range(BAD_STEP if rank == 3 else BAD_STEP + 4):
        work(torch.ones(64, 64))
        model(torch.ones(4, 32)).sum().backward()
    say("fault")
    loss = torch.zeros(1)
    dist.all_reduce(loss)


if __name__ == "__main__":
    main(globals())
