import time

import torch
from torch import nn

from steptime import StepTime

STEPS = 64


class Transformer(nn.Module):
    def __init__(self, dim=144):
        super().__init__()
        self.embed = nn.Embedding(500, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, dim * 4, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(dim, 500)

    def forward(self, ids):
        return self.out(self.body(self.embed(ids)))


def main():
    torch.manual_seed(0)
    model = Transformer()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    clock = StepTime()
    began = time.time()
    for step in range(1, STEPS + 1):
        ids = torch.randint(0, 500, (16, 32))
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        print(f"[{step:3d}/{STEPS}] loss {loss.item():.4f} norm {norm.item():.3f} "
              f"{(time.time() - began) / step * 1000:.0f} ms", flush=True)
        clock.tick()
    clock.report()


if __name__ == "__main__":
    main()
