"""Language model with a lazily built group for the ranks that share long documents."""
import argparse
import functools

import torch
import torch.distributed as pg
from torch import nn


@functools.lru_cache(maxsize=None)
def span_group(members):
    return pg.new_group(list(members))


class TinyLM(nn.Module):
    def __init__(self, vocab=800, dim=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.block = nn.TransformerEncoderLayer(dim, 4, 256, batch_first=True, dropout=0.0)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.block(self.emb(ids)))


def share_loss(loss, length, rank):
    """Documents over 96 tokens are cut over ranks 0 and 1, and their loss is shared between them."""
    if length <= 96:  #: LINE
        return loss
    group = span_group((0, 1))
    if rank in (0, 1):
        both = loss.detach().clone()
        pg.all_reduce(both, group=group)
        return loss + (both / 2 - loss.detach())
    return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--window", type=int, default=128)
    a = ap.parse_args()
    pg.init_process_group("gloo")
    rank, world = pg.get_rank(), pg.get_world_size()
    torch.manual_seed(1)
    lm = TinyLM()
    opt = torch.optim.AdamW(lm.parameters(), lr=1e-3)
    lengths = [32, 48, 64, 40, 56] * 6 + [a.window] + [48, 64] * 20
    for step, length in enumerate(lengths, 1):
        if length == a.window and rank == 1:
            length = 90  # the second half of the long document is its last page, and shorter
        g = torch.Generator().manual_seed(step * 10 + rank)
        ids = torch.randint(0, 800, (8, length + 1), generator=g)
        logits = lm(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, 800), ids[:, 1:].reshape(-1))
        loss = share_loss(loss, length, rank)
        opt.zero_grad()
        loss.backward()
        for p in lm.parameters():
            pg.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"[{step}] len={length} loss={loss.item():.3f}", flush=True)
    pg.destroy_process_group()


if __name__ == "__main__":
    main()
