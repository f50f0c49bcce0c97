"""Low-rank fine-tuning of a text encoder; the additions (some 100 kB) are saved every tenth step."""
import json
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

from lora import LoRA, additions
from pace import Pace

STEPS, WIDTH = 60, 512


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = LoRA(nn.Linear(WIDTH, 2 * WIDTH))
        self.down = LoRA(nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def main():
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer() for _ in range(4)))
    head = nn.Linear(WIDTH, 20)
    opt = torch.optim.AdamW([p for p in [*model.parameters(), *head.parameters()] if p.requires_grad], lr=1e-3)
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, STEPS + 1):
            texts, labels = torch.randn(6, 32, WIDTH), torch.randint(0, 20, (6,))
            loss = F.cross_entropy(head(model(texts).mean(1)), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 10 == 0:
                torch.save(additions(model), os.path.join(folder, "additions.pt"))
                with open(os.path.join(folder, "state.json"), "w") as f:
                    json.dump({"step": step, "loss": loss.item()}, f)
            pace.tick()
    print(f"loss {loss.item():.4f}")
    pace.report()


if __name__ == "__main__":
    main()
