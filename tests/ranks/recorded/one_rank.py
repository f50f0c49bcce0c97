"""A user's program for one rank, which forks, loses a thread, compiles, and ends with code 3.

    python one_rank.py FOLDER [LIMIT]

With a LIMIT no file may become longer than it: this stands for a disk that is full.
"""

import os
import resource
import signal
import sys
import threading

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol


def dies():
    raise ValueError("lost thread")


def compiled():
    @torch.compile(backend="eager", fullgraph=True)
    def double(value):
        return funcol.all_reduce(value, "sum", dist.group.WORLD) * 2

    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    step = torch.compile(optimizer.step, backend="eager")
    (weight * double(torch.ones(2))).sum().backward()
    step()
    return weight


def main(folder, limit):
    if limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    value = torch.ones(2)
    dist.all_reduce(value)
    if not limit:
        print("compiled", compiled().tolist(), flush=True)
        child = os.fork()
        if child == 0:
            for _ in range(10):
                dist.get_rank()
            os._exit(0)
        os.waitpid(child, 0)
        thread = threading.Thread(target=dies)
        thread.start()
        thread.join()
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=f"file://{folder}/store2", rank=0, world_size=1)
    dist.all_reduce(value)
    dist.destroy_process_group()
    print("value", value.tolist(), flush=True)
    sys.exit(3)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
