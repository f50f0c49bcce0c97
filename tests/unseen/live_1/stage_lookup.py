"""1F1B pipeline whose middle stage does a retrieval from a local index server."""
import queue
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

DIM = 16


class IndexServer(threading.Thread):
    def __init__(self, slots):
        super().__init__(daemon=True, name="index")
        self.inbox = queue.Queue()
        self.vectors = torch.randn(128, DIM)
        self.slots = threading.Semaphore(slots)

    def run(self):
        while True:
            vec, reply = self.inbox.get()
            best = (self.vectors @ vec).topk(2)
            if best.values[0] < 0:
                continue
            reply.put(self.vectors[best.indices].mean(0))

    def ask(self, vec):
        reply = queue.Queue(1)
        with self.slots:
            self.inbox.put((vec, reply))
            return reply.get()  #: LINE


class Retrieval(nn.Module):
    def __init__(self, server):
        super().__init__()
        self.lin = nn.Linear(DIM, DIM)
        self.server = server
        self.calls = 0

    def forward(self, x):
        q = self.lin(x)
        self.calls += 1
        probe = q.detach().mean(0)
        if self.calls == 22:
            probe = torch.full((DIM,), float("nan"))
            self.server.vectors = -self.server.vectors.abs()
            probe = probe.nan_to_num(nan=1.0)
        return q + self.server.ask(probe)


def build(rank):
    if rank == 1:
        server = IndexServer(slots=4)
        server.start()
        return Retrieval(server)
    return nn.Sequential(nn.Linear(DIM, DIM), nn.Tanh())


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mod = build(rank)
    stage = PipelineStage(mod, rank, world, torch.device("cpu"))
    sched = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    opt = torch.optim.SGD(mod.parameters(), 1e-2)
    for it in range(12):
        if rank == 0:
            sched.step(torch.randn(16, DIM))
        elif rank == world - 1:
            losses = []
            sched.step(target=torch.zeros(16, DIM), losses=losses)
            print(f"it {it} loss {sum(losses).item() / len(losses):.4f}", flush=True)
        else:
            sched.step()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


main()
