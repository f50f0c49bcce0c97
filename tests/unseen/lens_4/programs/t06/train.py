"""3 ranks, DDP; all meters of a step travel in one message."""
import statistics
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from meters import together


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3))

    def forward(self, x):
        time.sleep(0.055)
        return self.net(x)


def steps(n):
    g = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(n):
        yield torch.randn(10, 20, generator=g), torch.randint(3, (10,), generator=g)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DDP(Model())
    opt = torch.optim.Adam(model.parameters())
    took, history = [], []
    for x, y in steps(30):
        t = time.perf_counter()
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        hit = (logits.argmax(1) == y).float().mean()
        history.append(together(loss=loss.detach(), hit=hit, size=logits.detach().norm()))
        took.append(time.perf_counter() - t)
    if dist.get_rank() == 0:
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


main()
