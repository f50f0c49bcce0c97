#: n=2 ok set=3
"""Two pipeline stages; the second one spends a long time in a beam search once."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

BS, DIM = 3, 6


class Encoder:
    def __init__(self):
        torch.manual_seed(0)
        self.net = nn.Linear(DIM, DIM)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)
        self.gen = torch.Generator().manual_seed(1)

    def step(self, i):
        time.sleep(0.15)
        h = torch.tanh(self.net(torch.randn(BS, DIM, generator=self.gen)))
        out = dist.isend(h.detach(), 1, tag=1)
        grad = torch.empty(BS, DIM)
        back = dist.irecv(grad, 1, tag=2)
        out.wait()
        back.wait()
        self.opt.zero_grad()
        h.backward(grad)
        self.opt.step()


class Decoder:
    BEAM_AT = 20

    def __init__(self):
        torch.manual_seed(1)
        self.net = nn.Linear(DIM, 4)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def beam_search(self, h, budget):
        end = time.monotonic() + budget
        best = float("-inf")
        while time.monotonic() < end:
            with torch.no_grad():
                noise = torch.randn_like(h) * 0.01
                best = max(best, self.net(h + noise).max().item())
            time.sleep(0.01)
        return best

    def step(self, i):
        h = torch.empty(BS, DIM)
        dist.recv(h, 0, tag=1)
        h.requires_grad_()
        if i == self.BEAM_AT:
            print("FREEZE", time.time(), flush=True)
            print("best", self.beam_search(h.detach(), 30), flush=True)
        loss = self.net(h).logsumexp(-1).mean()
        self.opt.zero_grad()
        loss.backward()
        dist.send(h.grad, 0, tag=2)
        self.opt.step()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    stage = Encoder() if dist.get_rank() == 0 else Decoder()
    for i in range(45):
        stage.step(i)
        if i % 5 == 0 and dist.get_rank() == 0:
            print("step", i, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
