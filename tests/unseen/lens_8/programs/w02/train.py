"""A small convolutional network on augmented images."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from images import PackedImages
from pace import Pace

STEPS = 64
BATCH = 32


def build():
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Conv2d(24, 48, 3, stride=2, padding=1), nn.BatchNorm2d(48), nn.ReLU(),
        nn.Conv2d(48, 96, 3, stride=1, padding=1), nn.BatchNorm2d(96), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 10))


def main():
    torch.manual_seed(0)
    dataset = PackedImages(STEPS * BATCH)
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, drop_last=True, num_workers=0)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    pace = Pace()
    running = 0.0
    for step, (images, labels) in enumerate(loader):  #: LINE
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        running = 0.9 * running + 0.1 * loss.item()
        if step % 20 == 0:
            print(f"step {step} loss {running:.3f}")
        pace.tick()
    pace.report()


if __name__ == "__main__":
    main()
