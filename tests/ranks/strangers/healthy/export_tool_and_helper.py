#: n=4 ok exit=0
import json
import random
import signal
import subprocess
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

CONVERTER = """
import json, sys, time
job = json.load(sys.stdin)
deadline = time.time() + job["seconds"]
n = 0
while time.time() < deadline:
    time.sleep(0.2)
    n += 1
print(json.dumps({"layers": n}))
"""


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(100, 12), nn.Embedding(300, 12)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1) + self.bias


def convert(seconds):
    tool = subprocess.Popen([sys.executable, "-c", CONVERTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    out, _ = tool.communicate(json.dumps({"seconds": seconds}))
    if tool.returncode:
        raise RuntimeError(f"converter failed with {tool.returncode}")
    return json.loads(out)


def start_sidecar():
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(2)
    model = DDP(Ranker())
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    sidecar = start_sidecar() if rank == 1 else None
    seconds = random.Random(time.time_ns()).uniform(10, 45)
    for step in range(45):
        time.sleep(0.15)
        u, i = torch.randint(0, 100, (16,)), torch.randint(0, 300, (16,))
        loss = nn.functional.softplus(-model(u, i)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 20 and rank == 1:
            sidecar.send_signal(signal.SIGKILL)
            print("sidecar left with", sidecar.wait(), flush=True)
        if step == 28 and rank == 1:
            print("export", convert(seconds), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
