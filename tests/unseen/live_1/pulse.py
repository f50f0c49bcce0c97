"""DDP run with a pulse thread which adds up the sample counters of all ranks."""
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Pulse(threading.Thread):
    def __init__(self, period):
        super().__init__(daemon=True, name="pulse")
        self.period = period
        self.samples = 0
        self.total = 0

    def run(self):
        while True:
            t = torch.tensor([self.samples], dtype=torch.int64)
            dist.all_reduce(t)  #: LINE
            self.total = t.item()
            time.sleep(self.period)


def first_batches(rank):
    """the page cache of one node is cold at the beginning"""
    if rank == 2:
        time.sleep(1.5)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(40, 80)
        self.b = torch.nn.Linear(80, 40)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Model())
    opt = torch.optim.SGD(model.parameters(), 0.01)
    pulse = Pulse(0.4)
    first_batches(rank)
    started = False
    for step in range(400):
        x = torch.randn(16, 40)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        pulse.samples += 16
        if step == 10 and not started:
            pulse.start()
            started = True
        time.sleep(0.01 + 0.002 * rank)
        if rank == 0 and step % 20 == 0:
            print("step", step, "samples", pulse.total, flush=True)
    dist.destroy_process_group()


main()
