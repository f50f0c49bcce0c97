"""Trains on 8 ranks as pp 2 x dp 2 x tp 2, and evaluates with a data worker. Stands for BLOOM-176B's evaluation of May 18.

``bloom_eval.py RANK`` makes RANK's data worker inherit a held lock; without an argument nobody's does.
"""

import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader, Dataset

LOCK = threading.Lock()
STEPS, EVAL_EVERY, EVAL_BATCHES, STEP_S = 20, 10, 4, 0.1


class Documents(Dataset):
    def __len__(self):
        return EVAL_BATCHES

    def __getitem__(self, index):
        with LOCK:
            return torch.full((16,), float(index))


def hold_while_forking(has_forked):
    with LOCK:
        LOCKED.set()
        has_forked.wait()


LOCKED = threading.Event()


def batches(is_unlucky):
    """The evaluation's batches, from one forked worker."""
    loader = DataLoader(Documents(), num_workers=1, multiprocessing_context="fork")
    has_forked = threading.Event()
    if is_unlucky:
        threading.Thread(target=hold_while_forking, args=(has_forked,), daemon=True).start()
        LOCKED.wait()
    iterator = iter(loader)
    has_forked.set()
    yield from iterator


def train_step(mesh, values):
    time.sleep(STEP_S)
    dist.all_reduce(values, group=mesh.get_group("tp"))
    pipeline = mesh.get_group("pp")
    peers = dist.get_process_group_ranks(pipeline)
    if mesh.get_local_rank("pp") == 0:
        dist.send(values, peers[1], group=pipeline)
    else:
        dist.recv(values, peers[0], group=pipeline)
    dist.all_reduce(values, group=mesh.get_group("dp"))
    values /= 4


def evaluate(mesh, is_unlucky):
    total = torch.zeros(1)
    for batch in batches(is_unlucky):
        total += batch.sum()
        dist.all_reduce(total, group=mesh.get_group("tp"))
        dist.all_reduce(total, group=mesh.get_group("dp"))
        dist.broadcast(total, dist.get_process_group_ranks(mesh.get_group("pp"))[1], group=mesh.get_group("pp"))
    return total.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    is_unlucky = len(sys.argv) > 1 and int(sys.argv[1]) == rank
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    values = torch.ones(16)
    for step in range(1, STEPS + 1):
        train_step(mesh, values)
        if step % EVAL_EVERY == 0:
            evaluate(mesh, is_unlucky)
    dist.destroy_process_group()


main()
