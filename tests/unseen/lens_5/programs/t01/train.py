"""Ticket triage: a small transformer reads token ids and says which team should answer. Some tickets have no label yet."""

import logging
import statistics
import time

import torch
from torch import nn

from tickets import draw_tickets

log = logging.getLogger("triage")


class Triage(nn.Module):
    def __init__(self, vocab=2000, width=96, teams=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, teams)

    def forward(self, ids):
        return self.head(self.body(self.embed(ids)).mean(1))


def learning_rate(step, total):
    from math import cos, pi

    return 2e-4 + 8e-4 * 0.5 * (1 + cos(pi * step / total))


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(4)
    net = Triage()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    steps, taken = 100, []
    for step in range(steps):
        started = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        ids, team = draw_tickets(32, 48, step)
        known = team >= 0
        scores = net(ids)
        loss = nn.functional.cross_entropy(scores[known], team[known])
        log.debug("step %d scores %s", step, scores)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        taken.append(1000 * (time.perf_counter() - started))
    print(f"{statistics.median(taken):.2f} ms/step median, {statistics.mean(taken):.2f} ms/step")


if __name__ == "__main__":
    main()
