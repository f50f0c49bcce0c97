"""A character model that reads old novels."""
import logging
import statistics
import time

import torch
import torch.nn as nn

from describe import describe

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
log = logging.getLogger("bookworm")


class Reader(nn.Module):
    def __init__(self, chars=96, d=128, layers=3):
        super().__init__()
        self.emb = nn.Embedding(chars, d)
        self.cells = nn.ModuleList(nn.TransformerEncoderLayer(d, 4, 3 * d, 0.0, batch_first=True) for _ in range(layers))
        self.out = nn.Linear(d, chars)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        h = self.emb(x)
        for cell in self.cells:
            h = cell(h, src_mask=mask, is_causal=True)
        return self.out(h)


def text(n):
    g = torch.Generator().manual_seed(1)
    return (torch.cumsum(torch.randint(0, 7, (n,), generator=g), 0) % 96).long()


def main():
    torch.manual_seed(2)
    book, model = text(50_000), Reader()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    log.info("%d parameters", sum(p.numel() for p in model.parameters()))
    clock = []
    for step in range(1, 63):
        at = torch.randint(0, len(book) - 65, (12,))
        chunk = torch.stack([book[i:i + 65] for i in at])
        loss = nn.functional.cross_entropy(model(chunk[:, :-1]).flatten(0, 1), chunk[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        log.debug(f"step {step}: loss {loss:.4f}\n{describe(model)}")
        opt.step()
        if step % 20 == 0:
            log.info("step %d: loss %.4f", step, loss)
        clock.append(time.perf_counter())
    ms = [1000 * (b - a) for a, b in zip(clock, clock[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")


main()
