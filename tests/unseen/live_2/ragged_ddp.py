"""DDP over sentences of very different lengths: in each step another rank has the long ones."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Tagger(nn.Module):
    def __init__(self, vocab=2000, dim=64, tags=9):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.lstm = nn.LSTM(dim, 96, batch_first=True, bidirectional=True)
        self.out = nn.Linear(192, tags)

    def forward(self, ids):
        h, _ = self.lstm(self.emb(ids))
        return self.out(h)


class LengthBuckets:
    """Batches sorted by length and dealt round: the long batch walks from rank to rank."""

    def __init__(self, rank, world, steps):
        self.rank, self.world, self.steps = rank, world, steps

    def __len__(self):
        return self.steps

    def __iter__(self):
        for step in range(self.steps):
            g = torch.Generator().manual_seed(step * self.world + self.rank)
            long = (step // 2) % self.world == self.rank
            width = int(torch.randint(110, 150, (1,), generator=g)) if long else int(torch.randint(8, 30, (1,), generator=g))
            ids = torch.randint(1, 2000, (16, width), generator=g)
            yield ids, ids % 9


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = DistributedDataParallel(Tagger())
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    tokens = 0
    for step, (ids, tags) in enumerate(LengthBuckets(rank, world, steps=120)):
        logits = net(ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        tokens += ids.numel()
        if step % 20 == 19:
            t = torch.tensor([float(tokens), loss.item()])
            dist.all_reduce(t)
            if rank == 0:
                print(f"step {step + 1} tokens {int(t[0])} loss {t[1] / world:.3f}", flush=True)
    # length of the longest sentence that each rank tags rightly, found one after the other by width
    widths = [torch.zeros(1, dtype=torch.long) for _ in range(world)]
    dist.all_gather(widths, torch.tensor([ids.shape[1]]))
    if rank == 0:
        print("last widths", [int(w) for w in widths])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
