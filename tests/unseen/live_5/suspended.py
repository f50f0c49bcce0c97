"""Data parallel by hand with control through the store; a node agent shares the machine with an interactive partition."""
import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH = 900, 32

# the agent of the batch system on this node: makes room when somebody logs in interactively
AGENT = """
import os, signal, sys, time
pid, after = int(sys.argv[1]), float(sys.argv[2])
time.sleep(after)
if os.getppid() == pid:
    os.kill(pid, signal.SIGSTOP)
    end = time.time() + 3600
    while os.getppid() == pid and time.time() < end:
        time.sleep(1)
    if os.getppid() == pid:
        os.kill(pid, signal.SIGCONT)
"""


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(256, 384), nn.GELU(), nn.Linear(384, 384), nn.GELU(), nn.Linear(384, 20))

    def forward(self, x):
        return self.net(x)


class Control:
    """A switch board in the store: anybody may ask for a stop, all look at the same step."""

    def __init__(self, store, rank):
        self.store, self.rank = store, rank
        if rank == 0:
            store.set("wanted", "run")
        dist.barrier()

    def wanted(self, step):
        if step % 25:
            return "run"
        decision = [self.store.get("wanted").decode() if self.rank == 0 else None]
        dist.broadcast_object_list(decision, src=0)
        return decision[0]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    store = dist.PrefixStore("control", dist.distributed_c10d._get_default_store())
    control = Control(store, rank)
    torch.manual_seed(0)
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    g = torch.Generator().manual_seed(7 * rank)
    agent = None
    for step in range(STEPS):
        if control.wanted(step) == "stop":
            break
        if step == 40 and rank == 3:
            agent = subprocess.Popen([sys.executable, "-c", AGENT, str(os.getpid()), "1.5"])  #: LINE
        x = torch.randn(BATCH, 256, generator=g)
        y = x[:, :20].argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
        for w in works:
            w.wait()
        for p in model.parameters():
            p.grad /= world
        opt.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    if agent:
        agent.terminate()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
