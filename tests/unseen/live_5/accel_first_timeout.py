"""Accelerate: language model on text that is tokenised (merges learned) when a new shard begins, main process first."""
import collections
import datetime
import hashlib
import os
import random
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCAB = 512
CTX = 32


class TinyLM(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.head(h)


def read_shard(number):
    rng = random.Random(number)
    words = ["".join(rng.choice("abcdefghij") for _ in range(rng.randint(2, 9))) for _ in range(400)]
    return " ".join(rng.choice(words) for _ in range(9_000 if number < 2 else 1_200_000))


def learn_merges(text, count):
    """Plain byte pair encoding, a full pass over the text for each merge."""
    ids = list(text.encode())
    merges = {}
    for new in range(256, 256 + count):
        pairs = collections.Counter(zip(ids, ids[1:]))
        best = max(pairs, key=pairs.get)
        merges[best] = new
        out, i = [], 0
        while i < len(ids):  #: LINE
            if i + 1 < len(ids) and (ids[i], ids[i + 1]) == best:
                out.append(new)
                i += 2
            else:
                out.append(ids[i])
                i += 1
        ids = out
    return ids


def shard_tensor(accelerator, folder, number):
    path = os.path.join(folder, hashlib.md5(str(number).encode()).hexdigest() + ".pt")
    with accelerator.main_process_first():
        if not os.path.exists(path):
            ids = learn_merges(read_shard(number), 40)  #: LINE
            torch.save(torch.tensor(ids), path)
    ids = torch.load(path)
    n = min(len(ids) // (CTX + 1), 1200)
    return TensorDataset(ids[: n * (CTX + 1)].view(n, CTX + 1))


def main():
    accelerator = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(timeout=datetime.timedelta(seconds=20))])
    folder = os.path.join(tempfile.gettempdir(), f"bpe-{os.getppid()}")
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    model = TinyLM()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    for number in range(4):
        data = shard_tensor(accelerator, folder, number)
        loader = accelerator.prepare(DataLoader(data, batch_size=16, shuffle=True))
        for i, (x,) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(f"shard {number} loss {accelerator.reduce(loss.detach(), 'mean').item():.3f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
