import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def blobs(n, seed, spread=1.0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=g)
    centers = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    return centers[y] + spread * torch.randn(n, 2, generator=g), y


class Evaluator:
    """Scores named sets, the chunks of a set dealt out over the processes."""

    def __init__(self, chunk=10):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.chunk = chunk
        self.sets = {
            "easy": blobs(60, 5, 0.5),
            "plain": blobs(90, 6, 1.0),
            "rare": blobs(20, 7, 2.0),
        }

    def chunks(self, name):
        x, y = self.sets[name]
        pairs = list(zip(x.split(self.chunk), y.split(self.chunk)))
        return pairs[self.rank :: self.world]

    @torch.no_grad()
    def score(self, model, name):
        correct, loss, seen = 0, 0, 0
        for x, y in self.chunks(name):
            logits = model(x)
            correct += (logits.argmax(1) == y).float().sum().item()
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            seen += len(y)
        stats = torch.tensor([correct, loss, seen])
        dist.all_reduce(stats)
        return stats[0] / stats[2], stats[1] / stats[2]


def train_steps(model, opt, data, batch, start, count):
    x, y = data
    for i in range(start, start + count):
        rows = torch.arange(i * batch, (i + 1) * batch) % len(x)
        opt.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        opt.step()
    return start + count


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    model = DDP(nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 3)))
    opt = torch.optim.SGD(model.parameters(), lr=0.2)
    evaluator = Evaluator()
    data = blobs(200, seed=30 + rank)
    at = 0
    for phase, names in enumerate([("easy",), ("easy", "plain"), ("easy", "plain", "rare")]):
        at = train_steps(model, opt, data, batch=8, start=at, count=5)
        model.eval()
        for name in names:
            acc, loss = evaluator.score(model.module, name)
            if rank == 0:
                print(f"phase {phase} {name}: acc {acc.item():.3f} loss {loss.item():.3f}", flush=True)
        model.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
