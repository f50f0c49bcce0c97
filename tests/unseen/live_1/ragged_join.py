"""Uneven shards of graphs, handled with Join; the running loss is averaged for the log."""
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP


class GraphNet(torch.nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.msg = torch.nn.Linear(d, d)
        self.out = torch.nn.Linear(d, 1)

    def forward(self, x, adj):
        return self.out(torch.relu(adj @ self.msg(x))).mean()


def graphs(rank):
    g = torch.Generator().manual_seed(rank)
    for k in range(20 + 6 * rank):
        n = 5 + k % 4
        adj = (torch.rand(n, n, generator=g) > 0.5).float()
        yield torch.randn(n, 12, generator=g), adj, adj.mean()


class RunningLoss:
    def __init__(self, every):
        self.every = every
        self.vals = []

    def add(self, loss):
        self.vals.append(loss)
        if len(self.vals) == self.every:
            t = torch.tensor(self.vals).mean()
            self.vals = []
            dist.all_reduce(t)  #: LINE
            return (t / dist.get_world_size()).item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = DDP(GraphNet())
    opt = torch.optim.SGD(model.parameters(), 0.02)
    meter = RunningLoss(10)
    with Join([model]):
        for it, (x, adj, y) in enumerate(graphs(rank)):
            loss = (model(x, adj) - y) ** 2
            opt.zero_grad()
            loss.backward()
            opt.step()
            avg = meter.add(loss.item())
            if avg is not None:
                print(f"rank {rank} it {it} running {avg:.4f}", flush=True)
    total = torch.tensor([1.0])
    dist.all_reduce(total)
    print("ranks at the end:", total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
