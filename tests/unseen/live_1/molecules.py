"""Uneven molecule shards under Join, with a counter that takes part in the join."""
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel as DDP


class CounterHook(JoinHook):
    def __init__(self, counter):
        self.counter = counter

    def main_hook(self):
        dist.all_reduce(torch.zeros(1))

    def post_hook(self, is_last_joiner):
        pass


class Counter(Joinable):
    def __init__(self):
        super().__init__()
        self.total = torch.zeros(1)

    def __call__(self, n):
        Join.notify_join_context(self)
        t = torch.tensor([float(n)])
        dist.all_reduce(t)
        self.total += t

    def join_hook(self, **kw):
        return CounterHook(self)

    @property
    def join_device(self):
        return torch.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD


def molecules(rank):
    g = torch.Generator().manual_seed(rank)
    for k in range(30 + 40 * rank):
        n = 3 + k % 7
        yield torch.randn(n, 10, generator=g), torch.tensor(float(n))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.SiLU(), torch.nn.Linear(32, 1)))
    opt = torch.optim.SGD(model.parameters(), 1e-3)
    counter = Counter()
    with Join([counter, model]):
        for k, (x, y) in enumerate(molecules(rank)):
            counter(len(x))
            loss = (model(x).sum() - y) ** 2
            opt.zero_grad()
            loss.backward()
            opt.step()
            if k % 20 == 0:
                print(f"rank {rank} molecule {k} loss {loss.item():.3f}", flush=True)
    print(f"rank {rank} atoms {counter.total.item():.0f}", flush=True)
    dist.destroy_process_group()


main()
