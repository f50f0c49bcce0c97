"""A graph network; its details are for the debug log, formatted only when it is on."""
import logging
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

from pace import Pace

STEPS = 64
NODES, WIDTH = 560, 320

log = logging.getLogger("graph")


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(5))
        self.out = nn.Linear(WIDTH, 6)

    def forward(self, x, adjacency):
        for number, layer in enumerate(self.layers):
            x = F.relu(layer(adjacency @ x)) + x
            log.debug("layer %d: %s", number, x)
        return self.out(x)


def main():
    torch.manual_seed(0)
    adjacency = (torch.rand(NODES, NODES) < 0.05).float()
    adjacency /= adjacency.sum(1, keepdim=True).clamp(min=1)
    model = Graph()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        logging.basicConfig(filename=os.path.join(folder, "train.log"), level=logging.INFO)
        for step in range(STEPS):
            x = torch.randn(NODES, WIDTH)
            y = (x[:, 0] > 0).long()
            loss = F.cross_entropy(model(x, adjacency), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if log.isEnabledFor(logging.DEBUG):
                log.debug(f"gradients {[p.grad for p in model.parameters()]}")
            optimizer.step()
            log.info("step %d loss %.4f", step, loss.item())
            pace.tick()
        logging.shutdown()
    pace.report()


if __name__ == "__main__":
    main()
