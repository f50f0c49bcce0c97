"""accelerate: a streaming corpus, split by process, long documents are left out."""
import random

import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader, IterableDataset

VOCAB, WIDTH, MAX_LEN = 200, 32, 48


class Corpus(IterableDataset):
    def __init__(self, index, count, docs):
        self.index, self.count, self.docs = index, count, docs

    def __iter__(self):
        rng = random.Random(11)
        for i in range(self.docs):
            length = rng.randint(8, 64)
            tokens = [rng.randrange(VOCAB) for _ in range(length)]
            if i % self.count != self.index:
                continue
            if length > MAX_LEN:
                continue
            yield torch.tensor(tokens)


def collate(docs):
    out = torch.zeros(len(docs), MAX_LEN, dtype=torch.long)
    for i, d in enumerate(docs):
        out[i, : len(d)] = d
    return out


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids):
        h = torch.tanh(self.mix(self.emb(ids[:, :-1])))
        logits = self.head(h)
        return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def main():
    acc = Accelerator(cpu=True)
    torch.manual_seed(3)
    model = Tiny()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, opt = acc.prepare(model, opt)
    data = Corpus(acc.process_index, acc.num_processes, 600)
    loader = DataLoader(data, batch_size=4, collate_fn=collate, drop_last=True)
    for epoch in range(2):
        losses = []
        for step, ids in enumerate(loader):
            loss = model(ids)
            acc.backward(loss)
            opt.step()
            opt.zero_grad()
            losses.append(loss.detach())
            if step % 10 == 0:
                acc.print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
        mean = acc.gather(torch.stack(losses).mean()).mean()
        acc.print(f"epoch {epoch}: mean loss {mean.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
