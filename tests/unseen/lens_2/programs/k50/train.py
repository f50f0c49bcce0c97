import random
import time
import torch
import torch.distributed as dist
from torch import nn
from board import OnBoard, board
from meters import Smoothed

STEPS = 34
VOCAB = 500
WORDS = [f"w{i}" for i in range(VOCAB)]


class Scorer(nn.Module):
    """Scores a pair of answers; the better one should get more."""

    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(VOCAB, 48)
        self.mlp = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, ids):
        board.launch(13)
        return self.mlp(self.emb(ids)).squeeze(-1)


def fetch(rng, n=16, length=24):
    """Reads two answers for each prompt; the archive takes its time."""
    text = [" ".join(rng.choices(WORDS, k=length)) for _ in range(2 * n)]
    time.sleep(0.046)
    ids = torch.tensor([[int(w[1:]) for w in t.split()] for t in text])
    return ids[:n], ids[n:]


def average_gradients(params, world):
    flat = torch.cat([p.grad.reshape(-1) for p in params])
    dist.all_reduce(flat)
    at = 0
    for p in params:
        p.grad.copy_((flat[at:at + p.numel()] / world).view_as(p))
        at += p.numel()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    rng = random.Random(rank)
    model = Scorer()
    params = list(model.parameters())
    opt = torch.optim.AdamW(params, lr=3e-3)
    meter = Smoothed()
    start = None
    for step in range(STEPS):
        if step == 2:
            start = time.perf_counter()
        good, bad = fetch(rng)
        margin = model(good) - model(bad)
        loss = -torch.nn.functional.logsigmoid(margin).mean()
        board.launch(16)
        loss.backward()
        average_gradients(params, world)
        opt.step()
        opt.zero_grad()
        meter.update(loss.as_subclass(OnBoard))
    board.drain()
    per = (time.perf_counter() - start) / (STEPS - 2) * 1e3
    if rank == 0:
        print(f"scorer: meter {meter}, {per:.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
