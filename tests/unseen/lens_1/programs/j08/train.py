import time

import torch
import torch._dynamo
from torch import nn
from torch.nn.functional import cross_entropy, pad

torch._dynamo.config.cache_size_limit = 64
BUCKETS = (64, 96)


class Encoder(nn.Module):
    def __init__(self, vocab=300, d=96, depth=3):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.convs = nn.ModuleList(nn.Conv1d(d, d, 3, padding=1) for _ in range(depth))
        self.out = nn.Linear(d, vocab)

    def forward(self, t):
        x = self.emb(t).transpose(1, 2)
        for c in self.convs:
            x = x + torch.tanh(c(x))
        return self.out(x.transpose(1, 2))


def collate(length):
    t = torch.randint(1, 300, (16, length))
    width = next(b for b in BUCKETS if b >= length)
    t = pad(t, (0, width - length))
    return t


def main():
    torch.manual_seed(0)
    model = Encoder()
    compiled = torch.compile(model, backend="aot_eager", dynamic=False)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    lengths = torch.randint(33, 97, (26,)).tolist()
    lengths[:2] = [60, 90]
    for n, length in enumerate(lengths):
        if n == 3:
            t0 = time.perf_counter()
        t = collate(length)
        logits = compiled(t)
        loss = cross_entropy(logits.flatten(0, 1), t.flatten(), ignore_index=0)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{n + 1} steps, loss {loss.item():.3f}, {(time.perf_counter() - t0) / (n - 2) * 1e3:.2f} ms/step", flush=True)


if __name__ == "__main__":
    main()
