"""Rank 0 trains a small student, rank 1 asks the big teacher. The student's own samples are marked by the teacher, on-policy."""

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

from teacher import serve

WIDTH, CLASSES, BATCH, STEPS = 256, 40, 256, 80


def student_net():
    return nn.Sequential(nn.Linear(WIDTH, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, CLASSES))


def learn():
    torch.manual_seed(0)
    student = student_net()
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4)
    code = torch.randn(WIDTH, CLASSES, generator=torch.Generator().manual_seed(1))
    took = []
    for step in range(STEPS):
        t0 = time.perf_counter()
        rng = torch.Generator().manual_seed(step)
        x = torch.randn(2 * BATCH, WIDTH, generator=rng)
        y = (x @ code).argmax(1)
        doubtful = x[:BATCH] + 0.3 * torch.randn(BATCH, WIDTH, generator=rng)
        marks = torch.empty(BATCH, CLASSES)
        dist.send(doubtful, dst=1)
        reply = dist.irecv(marks, src=1)
        optimizer.zero_grad()
        hard = nn.functional.cross_entropy(student(x), y)
        hard.backward()
        reply.wait()
        soft = nn.functional.kl_div(student(doubtful).log_softmax(1), marks.softmax(1), reduction="batchmean")
        soft.backward()
        optimizer.step()
        took.append(time.perf_counter() - t0)
    print(f"hard {hard.item():.3f} soft {soft.item():.4f}")
    print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        learn()
    else:
        serve(STEPS, BATCH, WIDTH, CLASSES)
    dist.barrier()
    dist.destroy_process_group()
