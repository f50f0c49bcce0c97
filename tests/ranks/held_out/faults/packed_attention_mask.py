#: n=4 ranks=3 cause=out_of_memory tier=error exit=1
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class Documents:
    """Yields document lengths; the collator packs them up to the longest one."""

    def __init__(self, rank, dump_at):
        self.rng = random.Random(rank)
        self.rank, self.dump_at = rank, dump_at
        self.count = 0

    def lengths(self):
        self.count += 1
        found = [self.rng.randint(6, 20) for _ in range(3)]
        if self.rank == 3 and self.count == self.dump_at:
            found[1] = 24_000_000
        return found


def document_mask(lengths, limit=None):
    longest = max(lengths)
    if longest > 10**6:
        print("FREEZE", time.time(), flush=True)
    causal = torch.ones(longest, longest, dtype=torch.bool)  #: LINE
    return causal.tril()


class CausalLM(nn.Module):
    def __init__(self, vocab=70, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids, mask):
        q, k, v = self.qkv(self.emb(ids)).chunk(3, -1)
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


def collate(lengths):
    time.sleep(0.14)
    mask = document_mask(lengths)
    ids = torch.zeros(len(lengths), mask.shape[0], dtype=torch.long)
    for row, n in enumerate(lengths):
        ids[row, :n] = torch.randint(1, 70, (n,))
    return ids, mask


def train(model, opt, docs, steps):
    for step in range(steps):
        ids, mask = collate(docs.lengths())
        logits = model(ids[:, :-1], mask[:-1, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"{step:4d} {loss.item():.4f}", flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(2)
    model = DDP(CausalLM())
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    train(model, opt, Documents(rank, random.Random(64).randint(18, 30)), steps=80)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
