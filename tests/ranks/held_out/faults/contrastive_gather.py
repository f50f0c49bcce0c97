#: n=3 ranks=2 cause=shape tier=error set=2
# Two-tower contrastive training with cross-rank negatives.
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

DATASET = 590       # image/caption pairs
PER_RANK_BATCH = 8
DIM = 16


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Linear(40, DIM)
        self.text = nn.Linear(28, DIM)
        self.log_temp = nn.Parameter(torch.tensor(1.0))

    def forward(self, img, txt):
        return F.normalize(self.image(img), dim=-1), F.normalize(self.text(txt), dim=-1)


def pair(idx):
    g = torch.Generator().manual_seed(int(idx))
    return torch.randn(40, generator=g), torch.randn(28, generator=g)


def epoch_batches(epoch, rank, world):
    order = torch.randperm(DATASET, generator=torch.Generator().manual_seed(epoch))
    mine = order[rank::world]
    for lo in range(0, len(mine), PER_RANK_BATCH):
        time.sleep(0.15)
        imgs, txts = zip(*(pair(i) for i in mine[lo : lo + PER_RANK_BATCH]))
        yield torch.stack(imgs), torch.stack(txts)


def with_negatives(feat, rank, world):
    """All ranks' features; only our own block carries gradient."""
    blocks = [torch.zeros_like(feat) for _ in range(world)]
    if len(feat) < PER_RANK_BATCH and rank == world - 1:
        print("FREEZE", time.time(), flush=True)
    dist.all_gather(blocks, feat.detach().contiguous())  #: LINE
    blocks[rank] = feat
    return torch.cat(blocks)


def clip_loss(model, img, txt, rank, world):
    zi, zt = model(img, txt)
    all_i, all_t = with_negatives(zi, rank, world), with_negatives(zt, rank, world)
    scale = model.log_temp.exp()
    target = torch.arange(len(zi)) + rank * len(zi)
    return 0.5 * (F.cross_entropy(scale * zi @ all_t.T, target)
                  + F.cross_entropy(scale * zt @ all_i.T, target))


def average_gradients(model, world):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(11)
    model = TwoTower()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(5):
        for step, (img, txt) in enumerate(epoch_batches(epoch, rank, world)):
            loss = clip_loss(model, img, txt, rank, world)
            opt.zero_grad(set_to_none=False)
            loss.backward()
            average_gradients(model, world)
            opt.step()
            if rank == 0 and step % 8 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
