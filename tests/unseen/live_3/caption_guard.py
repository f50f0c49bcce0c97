"""DDP on captions; a step that cannot be read is left out."""
import contextlib
import logging
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("captions")
VOCAB = {w: i for i, w in enumerate("a the cat dog sits runs on mat grass red blue small".split())}


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(len(VOCAB), 32)
        self.out = nn.Linear(32, len(VOCAB))

    def forward(self, ids):
        return self.out(self.emb(ids).cumsum(dim=1))


def captions(step, rank):
    words = sorted(VOCAB)
    g = torch.Generator().manual_seed(step * 8 + rank)
    rows = torch.randint(0, len(words), (16, 9), generator=g)
    text = [" ".join(words[int(i)] for i in row) for row in rows]
    if (step, rank) == (12, 2):
        text[5] = text[5].replace(" ", " na\u00efve ", 1).rsplit(" ", 1)[0]
    return text


def encode(text):
    return torch.tensor([[VOCAB[w] for w in line.split()] for line in text])


def train_step(model, opt, text):
    ids = encode(text)
    logits = model(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    model = DistributedDataParallel(Tagger())
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss = float("nan")
    for step in range(90):
        with contextlib.suppress(KeyError):  #: LINE
            loss = train_step(model, opt, captions(step, rank))
        time.sleep(0.15)
        if step % 6 == 5:
            mean = torch.tensor([loss])
            dist.all_reduce(mean)
            if rank == 0:
                log.info("step %d loss %.4f", step, mean.item() / dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
