import time
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard as shard
from penalty import size_of

STEPS, D = 16, 512


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(D, 2 * D, bias=False)
        self.b = nn.Linear(2 * D, D, bias=False)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    net = nn.Sequential(*[Layer() for _ in range(3)], nn.Linear(D, 4))
    for layer in net[:3]:
        shard(layer, reshard_after_forward=False)
    shard(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    t = 0.0
    for step in range(STEPS):
        if step == 1:
            t = time.perf_counter()
        x = torch.randn(4, D)
        time.sleep(0.06)
        loss = nn.functional.cross_entropy(net(x), x[:, :4].argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 8 == 7:
            bound = size_of(net)
    if dist.get_rank() == 0:
        print(f"bound {float(bound):.2f}; {(time.perf_counter() - t) / (STEPS - 1) * 1e3:.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
