"""Training with the garbage collector held back: frozen after set-up, the young generation by hand."""
import gc

import torch
import torch.nn.functional as F
from torch import nn

from pace import Pace

STEPS = 64
BATCH, LENGTH, WIDTH = 16, 40, 192


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 3 * WIDTH, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        return self.head(self.body(x).mean(1))


def main():
    torch.manual_seed(0)
    lookup = [{"word": f"w{i}", "near": [i - 1, i + 1]} for i in range(40_000)]
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    gc.collect()
    gc.freeze()
    gc.disable()
    pace = Pace()
    for step in range(STEPS):
        x = torch.randn(BATCH, LENGTH, WIDTH)
        y = torch.tensor([len(lookup[(step * BATCH + i) % len(lookup)]["near"]) % 3 for i in range(BATCH)])
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        gc.collect(0 if step % 16 else 1)
        pace.tick()
    gc.enable()
    print(f"final loss {loss.item():.4f}")
    pace.report()


if __name__ == "__main__":
    main()
