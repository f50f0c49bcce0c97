import numpy as np
import torch
from torch import nn

from steptime import StepTime

STEPS = 64
CLASSES = 1000


def build():
    return nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES))


class Epoch:
    """What the epoch's metrics need at its end."""

    def __init__(self):
        self.probs, self.golds = [], []

    def add(self, logits, gold):
        self.probs.append(logits.softmax(-1).numpy())
        self.golds.append(gold.numpy())

    def top5(self):
        probs, golds = np.concatenate(self.probs), np.concatenate(self.golds)
        best = np.argpartition(probs, -5, axis=1)[:, -5:]
        return float((best == golds[:, None]).any(1).mean())


def main():
    torch.manual_seed(0)
    model = build()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    epoch = Epoch()
    clock = StepTime()
    for step in range(STEPS):
        x, y = torch.randn(384, 128), torch.randint(0, CLASSES, (384,))
        logits = model(x)
        loss = loss_fn(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        epoch.add(logits.detach(), y)
        clock.tick()
        if step % 16 == 15:
            print(f"step {step} top5 {epoch.top5():.3f}")
            epoch = Epoch()
            clock.last = None
    clock.report()


if __name__ == "__main__":
    main()
