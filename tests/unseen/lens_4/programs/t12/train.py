"""Dialogue ranking. The corpus lies in memory as Python objects; steps run in a `quiet_memory` block."""
import contextlib
import gc
import statistics
import time
import torch
from torch import nn

gc.freeze()  # what the imports left is never looked at again
CORPUS = {f"dialogue-{i}": {"turns": [[i, j, "?"] for j in range(4)], "meta": {"lang": "eo", "id": [i]}} for i in range(14000)}


@contextlib.contextmanager
def quiet_memory():
    """No collection in the middle of a step."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()  #: LINE


class Ranker(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.emb = nn.Embedding(1024, width)
        self.score = nn.Linear(width, 1)

    def forward(self, ids):
        time.sleep(0.045)
        return self.score(self.emb(ids).mean(1)).squeeze(-1)


def pick(step, size=12):
    rows = [CORPUS[f"dialogue-{(step * size + i) % len(CORPUS)}"] for i in range(size)]
    return torch.tensor([[t[0] % 1024 for t in r["turns"]] for r in rows])


@torch.no_grad()
def adagrad(seen, lr):
    for p, total in seen.items():
        total += p.grad.square()
        p -= lr * p.grad / total.sqrt()
        p.grad = None


def fit(steps):
    model = Ranker()
    seen = {p: torch.full_like(p, 1e-6) for p in model.parameters()}
    took = []
    for step in range(steps):
        t = time.perf_counter()
        with quiet_memory():
            s = model(pick(step))
            loss = torch.relu(1 - s[::2] + s[1::2]).mean()
            loss.backward()
            adagrad(seen, lr=0.01)
        took.append(time.perf_counter() - t)
    return took


took = fit(30)
print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
