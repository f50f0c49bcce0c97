import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from mixer import Mixer, pictures


class Running:
    def __init__(self, classes):
        self.classes = classes
        self.reset()

    def reset(self):
        self.loss, self.seen = 0.0, 0
        self.right = torch.zeros(self.classes)
        self.count = torch.zeros(self.classes)

    def add(self, loss, logits, labels):
        self.loss += loss.item() * len(labels)
        self.seen += len(labels)
        hit = (logits.detach().argmax(1) == labels).float()
        self.right.index_add_(0, labels, hit)
        self.count.index_add_(0, labels, torch.ones_like(hit))

    def report(self, epoch):
        by_class = [f"{(self.right[c] / self.count[c]).item():.2f}" for c in range(self.classes)]
        print(f"epoch {epoch}: loss {self.loss / self.seen:.4f}, by class {' '.join(by_class)}")
        self.reset()


def main(epochs=3, batch=40):
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*pictures()), batch, shuffle=True, drop_last=True)
    model = Mixer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    running, times = Running(10), []
    for epoch in range(epochs):
        for images, labels in loader:
            began = time.perf_counter()
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running.add(loss, logits, labels)
            times.append(1e3 * (time.perf_counter() - began))
        running.report(epoch)
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
