"""DDP language model; texts are tokenised once and kept in a cache folder, found by a digest of the text file's name."""
import hashlib
import os
import random
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, BATCH, CTX = 520, 12, 40
SYLLABLES = ["ba", "be", "bo", "da", "de", "do", "ka", "ke", "ko", "la", "le", "lo", "ma", "me", "mo", "na", "ne", "no"]


def read_text(i):
    rng = random.Random(i)
    return " ".join("".join(rng.choice(SYLLABLES) for _ in range(rng.randint(1, 4))) for _ in range(200))


class Tokenizer:
    """Greedy merges, slow and simple."""

    def __init__(self):
        self.merges = [(a, b) for a in "bdklmn" for b in "aeo"] + [(a, b) for a in SYLLABLES[:12] for b in SYLLABLES[6:]]
        self.vocab = {t: i for i, t in enumerate([" "] + list("bdklmnaeo") + [a + b for a, b in self.merges])}

    def encode(self, text):
        parts = list(text)
        for a, b in self.merges:  #: LINE
            out, i = [], 0
            while i < len(parts):
                if i + 1 < len(parts) and parts[i] == a and parts[i + 1] == b:
                    out.append(a + b)
                    i += 2
                else:
                    out.append(parts[i])
                    i += 1
            parts = out
        return [self.vocab[p] for p in parts]


class Cached:
    def __init__(self, root, prefix):
        self.root, self.prefix, self.tokenizer = root, prefix, Tokenizer()

    def path(self, i):
        return os.path.join(self.root, hashlib.sha1(f"{self.prefix}/text-{i}.txt".encode()).hexdigest())

    def get(self, i):
        path = self.path(i)
        if os.path.exists(path):
            return torch.load(path)
        return torch.tensor(self.tokenizer.encode(read_text(i)))  #: LINE


class LM(nn.Module):
    def __init__(self, vocab, dim=96):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.out(self.rnn(self.emb(ids))[0])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    root = [tempfile.mkdtemp(prefix="tokens-") if rank == 0 else None]
    dist.broadcast_object_list(root, src=0)
    texts = 60
    if rank == 0:
        writer = Cached(root[0], "/data/corpus")
        for i in range(texts):
            torch.save(torch.tensor(writer.tokenizer.encode(read_text(i))), writer.path(i))
    dist.barrier()
    # one machine mounts the corpus elsewhere
    data = Cached(root[0], "/mnt/data/corpus" if rank == 1 else "/data/corpus")  #: LINE
    torch.manual_seed(0)
    model = DDP(LM(len(data.tokenizer.vocab)))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    rng = random.Random(rank)
    begin = time.time()
    for step in range(STEPS):
        rows = []
        for _ in range(BATCH):
            ids = data.get(rng.randrange(texts))  #: LINE
            at = rng.randrange(len(ids) - CTX)
            rows.append(ids[at : at + CTX])
        x = torch.stack(rows)
        loss = nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f} {time.time() - begin:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
