"""Word model whose vocabulary is collected from the local documents first."""
from collections import Counter

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

BASE = "the a of to and in it is was for on as with he she at by be this from".split()


def documents(rank):
    words = list(BASE)
    if rank == 2:
        words += ["dégât"]
    for k in range(50):
        yield [words[(k * 5 + j * 3 + rank) % len(words)] for j in range(12)]


class Vocab:
    def __init__(self, docs, min_count=2):
        count = Counter(w for d in docs for w in d)
        self.itos = ["<unk>"] + sorted(w for w, c in count.items() if c >= min_count)
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def encode(self, doc):
        return torch.tensor([self.stoi.get(w, 0) for w in doc])


class CBOW(torch.nn.Module):
    def __init__(self, n, d=12):
        super().__init__()
        self.emb = torch.nn.Embedding(n, d)
        self.out = torch.nn.Linear(d, n)

    def forward(self, ids):
        return self.out(self.emb(ids).mean(0))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    docs = list(documents(rank))
    vocab = Vocab(docs)  #: LINE
    torch.manual_seed(0)
    model = DDP(CBOW(len(vocab)))
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in range(2):
        for doc in docs:
            ids = vocab.encode(doc)
            loss = torch.nn.functional.cross_entropy(model(ids[1:]), ids[0])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank == 0:
            print("epoch", epoch, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
