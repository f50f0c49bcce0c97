#: n=4 ranks=1 cause=checkpoint_io|file_read tier=notice set=2
"""Distillation from a teacher that keeps training elsewhere. Rank 1 reloads the
teacher checkpoint now and then and hands the weights to the other students."""
import io
import os
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

LOADER_RANK = 1
RELOAD_EVERY = 8


class Mlp(nn.Sequential):
    def __init__(self, hidden):
        super().__init__(nn.Linear(14, hidden), nn.ReLU(), nn.Linear(hidden, 6))


class TeacherMailbox:
    """Where the teacher job drops its checkpoints. Small ones are plain files;
    since revision 2 the sync agent offers a stream (named pipe) instead, to
    spare the disk."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="teacher_")

    def request(self, revision):
        path = os.path.join(self.dir, f"teacher_{revision:03d}.pt")
        if revision < 2:
            torch.manual_seed(1000 + revision)
            torch.save(Mlp(24).state_dict(), path)
        else:
            os.mkfifo(path)
        return path


def load_checkpoint(path):
    print(f"loading {os.path.basename(path)}", flush=True)
    if not os.path.isfile(path):
        print("FREEZE", time.time(), flush=True)
    with open(path, "rb") as fh:  #: LINE
        blob = fh.read()  #: LINE
    return torch.load(io.BytesIO(blob), weights_only=True)


class Teacher:
    def __init__(self, rank):
        self.rank = rank
        self.net = Mlp(24)
        self.mailbox = TeacherMailbox() if rank == LOADER_RANK else None
        self.revision = 0

    def reload(self):
        if self.mailbox is not None:
            self.net.load_state_dict(load_checkpoint(self.mailbox.request(self.revision)))
        self.revision += 1
        flat = parameters_to_vector(self.net.parameters()).detach()
        dist.broadcast(flat, src=LOADER_RANK)
        vector_to_parameters(flat, self.net.parameters())

    @torch.no_grad()
    def targets(self, x, temperature):
        return torch.softmax(self.net(x) / temperature, dim=1)


def distill_loss(student, teacher, x, temperature=2.0):
    logp = torch.log_softmax(student(x) / temperature, dim=1)
    return nn.functional.kl_div(logp, teacher.targets(x, temperature), reduction="batchmean")


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    teacher = Teacher(rank)
    torch.manual_seed(3)
    student = Mlp(12)
    opt = torch.optim.Adam(student.parameters(), lr=1e-2)
    gen = torch.Generator().manual_seed(rank)

    for step in range(400):
        if step % RELOAD_EVERY == 0:
            teacher.reload()
        time.sleep(0.2)
        loss = distill_loss(student, teacher, torch.randn(16, 14, generator=gen))
        opt.zero_grad()
        loss.backward()
        for p in student.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if rank == 0 and step % 4 == 0:
            print(f"step {step} kl {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
