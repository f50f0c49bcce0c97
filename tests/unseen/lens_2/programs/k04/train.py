import time
import torch
import torch.distributed as dist
from torch import nn
from sync import Averager, agree

STEPS = 22


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 4))

    def forward(self, x):
        time.sleep(0.09)
        return self.net(x)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    slow = Averager()
    small = None
    t = time.perf_counter()
    skipped = 0
    for step in range(STEPS):
        x = torch.randn(16, 32)
        loss = nn.functional.cross_entropy(net(x), x[:, :4].argmax(1))
        opt.zero_grad()
        loss.backward()
        slow.finish()
        slow.start()
        go = agree(torch.isfinite(loss), small)
        if go:
            opt.step()
        else:
            skipped += 1
    slow.finish()
    if dist.get_rank() == 0:
        print(f"skipped {skipped}; {(time.perf_counter() - t) / STEPS * 1e3:.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
