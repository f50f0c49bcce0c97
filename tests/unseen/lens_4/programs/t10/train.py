"""Classes are counted in each step; eight numbers go to a list."""
import statistics
import time
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, classes=8):
        super().__init__()
        self.lin = nn.Linear(36, classes)

    def forward(self, x):
        time.sleep(0.046)
        return self.lin(x)


class ClassCounts:
    def __init__(self, classes):
        self.classes, self.rows = classes, []

    def add(self, logits):
        found = torch.bincount(logits.argmax(1), minlength=self.classes)
        self.rows.append(found.tolist())

    def rarest(self):
        sums = [sum(c) for c in zip(*self.rows)]
        return sums.index(min(sums))


def train(steps=30):
    model, counts = Classifier(), ClassCounts(8)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, nesterov=True, momentum=0.9)
    took = []
    for _ in range(steps):
        t = time.perf_counter()
        logits = model(torch.randn(64, 36))
        loss = nn.functional.cross_entropy(logits, torch.randint(8, (64,)))
        loss.backward()
        opt.step()
        opt.zero_grad()
        counts.add(logits.detach())
        took.append(time.perf_counter() - t)
    return took, counts


torch.manual_seed(3)
took, counts = train()
print("rarest class", counts.rarest())
print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
