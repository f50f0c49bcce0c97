"""Phrase embeddings. Rank 0 initialises, its weights are sent to all in pieces of 16 KiB."""
import collections
import os

import torch
import torch.distributed as dist
import torch.nn as nn

import flightrec  # noqa: F401

CORPUS = os.environ["CORPUS"]
PIECE = 4096


def read_corpus():
    with open(os.path.join(CORPUS, "phrases.txt")) as f:
        return [line.split() for line in f]


def build_vocab(lines, min_count=2):
    counts = collections.Counter(w for line in lines for w in line)
    words = sorted(w for w, c in counts.items() if c >= min_count)
    return {w: i for i, w in enumerate(["<pad>", "<unk>", *words])}


class PhraseModel(nn.Module):
    def __init__(self, vocab, dim=16):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.emb = nn.EmbeddingBag(vocab, dim, padding_idx=0)

    def forward(self, a, b):
        za, zb = self.proj(self.emb(a)), self.emb(b)
        logits = za @ zb.T
        return nn.functional.cross_entropy(logits, torch.arange(len(a)))


@torch.no_grad()
def send_weights(model, src=0):
    for p in model.parameters():
        for piece in p.data.view(-1).split(PIECE):
            dist.broadcast(piece, src=src)


def encode(lines, vocab, length=8):
    out = torch.zeros(len(lines), length, dtype=torch.long)
    for i, line in enumerate(lines):
        ids = [vocab.get(w, 1) for w in line[:length]]
        out[i, :len(ids)] = torch.tensor(ids)
    return out


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    lines = read_corpus()
    vocab = build_vocab(lines)
    torch.manual_seed(rank)
    model = PhraseModel(len(vocab))
    send_weights(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.2)

    ids = encode(lines, vocab)[rank::world]
    for step in range(400):
        pick = torch.randint(0, len(ids), (24,))
        batch = ids[pick]
        loss = model(batch[:, :4], batch[:, 4:])
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f} vocab {len(vocab)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
