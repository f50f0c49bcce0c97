"""Training with a validator: every ten steps rank 0 has a child program check the weights."""
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

CHECK = """
import sys, math
values = [float(v) for v in sys.stdin.read().split()]
limit = float(sys.argv[1])
for i, v in enumerate(values):
    if abs(v) > limit:
        print("weight", i, "is", v, "which is above the limit of", limit, "and may not be exported")
print("checked", len(values))
"""


class Validator:
    def __init__(self):
        self.limit = 0.4

    def check(self, net):
        values = " ".join(f"{v:.6f}" for p in net.parameters() for v in p.flatten().tolist())
        child = subprocess.Popen([sys.executable, "-S", "-c", CHECK, str(self.limit)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        child.stdin.write(values)
        child.stdin.close()
        code = child.wait()  #: LINE
        text = child.stdout.read()
        self.limit *= 0.2  # stricter as the training goes on
        return code, text.splitlines()[-1]


def batch(step, rank):
    g = torch.Generator().manual_seed(step * 2 + rank)
    x = torch.randn(32, 64, generator=g)
    return x, x.roll(1, dims=1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    validator = Validator()
    for step in range(120):
        x, y = batch(step, rank)
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        works = [dist.all_reduce(p.grad, async_op=True) for p in net.parameters()]
        for w in works:
            w.wait()
        opt.step()
        time.sleep(0.15)
        if step % 10 == 9 and rank == 0:
            print(step, loss.item(), validator.check(net), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
