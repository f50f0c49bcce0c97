"""Accelerate; when a batch does not fit, it is taken in two halves."""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset


class Reviews(Dataset):
    def __init__(self, n=4800):
        g = torch.Generator().manual_seed(4)
        self.x = torch.randint(1, 500, (n, 40), generator=g)
        self.y = torch.randint(0, 2, (n,), generator=g)
        self.long = set(range(2051, 2067, 2))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i], i in self.long


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = torch.nn.EmbeddingBag(500, 64)
        self.out = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))

    def forward(self, ids, is_long=None):
        if is_long is not None and len(ids) > 4 and is_long.sum() > 3:
            raise RuntimeError("out of memory: tried to allocate 11.20 GiB")
        return self.out(self.emb(ids))


def train_batch(acc, model, x, y, is_long):
    try:
        loss = torch.nn.functional.cross_entropy(model(x, is_long), y)
        acc.backward(loss)
    except RuntimeError as e:
        if "out of memory" not in str(e):
            raise
        for part in (slice(0, 4), slice(4, None)):  #: LINE
            loss = torch.nn.functional.cross_entropy(model(x[part], is_long[part]), y[part])
            acc.backward(loss / 2)  #: LINE
    return loss.detach()


def main():
    set_seed(0)
    acc = Accelerator(cpu=True)
    model = Classifier()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(Reviews(), batch_size=8)
    model, opt, loader = acc.prepare(model, opt, loader)
    for epoch in range(2):
        for i, batch in enumerate(loader):
            loss = train_batch(acc, model, *batch)
            opt.step()
            opt.zero_grad()
            if i % 25 == 0:
                acc.print(epoch, i, f"{acc.reduce(loss, 'mean').item():.3f}")
    acc.end_training()


main()
