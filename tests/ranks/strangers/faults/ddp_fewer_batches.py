#: n=4 ranks=3 cause=main_exited|uneven_data tier=error exit=1
import time, torch, torch.distributed as dist, torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
def batches(rank):
    n = 40 if rank != 3 else 25
    for _ in range(n):
        yield torch.randn(8, 32)
def main():
    dist.init_process_group("gloo")
    r = dist.get_rank()
    net = DDP(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)))
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for x in batches(r):
        time.sleep(0.15)
        net(x).sum().backward()
        opt.step(); opt.zero_grad()
    print("FREEZE", time.time(), flush=True)
    if True:
        dist.destroy_process_group()
main()
