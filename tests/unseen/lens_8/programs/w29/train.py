"""Classification of small images with a mixture of augmentations."""
import torch
import torch.nn.functional as F
from torch import nn

from augment import augment
from pace import Pace

STEPS = 66
BATCH = 1024


def build():
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(24 * 16, 384), nn.ReLU(), nn.Linear(384, 10))


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(4096, 1, 16, 16, generator=generator)
    labels = (images.mean((1, 2, 3)) * 1000).long() % 10
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    pace = Pace()
    for step in range(STEPS):
        picked = torch.randint(0, len(images), (BATCH,), generator=generator)
        batch = augment(images[picked], generator)
        loss = F.cross_entropy(model(batch), labels[picked])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
        pace.tick()
    pace.report()


if __name__ == "__main__":
    main()
