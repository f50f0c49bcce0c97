"""Grain of wood from macro photographs, with accelerate and a running accuracy."""
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy

from pace import Pace

STEPS = 60


def build():
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, stride=2, padding=2), nn.GELU(), nn.Conv2d(32, 64, 3, padding=1), nn.GELU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 9))


@torch.no_grad()
def validate(model, images, labels):
    model.eval()
    correct = (model(images).argmax(1) == labels).float().mean().item()
    model.train()
    return correct


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(11)
    images, labels = torch.randn(520, 3, 64, 64), torch.randint(0, 9, (520,))
    held_out = images[512:], labels[512:]
    loader = DataLoader(TensorDataset(images[:512], labels[:512]), batch_size=16, shuffle=True, drop_last=True)
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    accuracy = MulticlassAccuracy(num_classes=9, average="micro", validate_args=False)
    pace, step = Pace(), 0
    while step < STEPS:
        for x, y in loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            accuracy.update(logits.detach().cpu(), y.cpu())
            step += 1
            if step % 30 == 0:
                accelerator.print(f"{step}: train {accuracy.compute():.3f} held out {validate(model, *held_out):.3f}")
                accuracy.reset()
            pace.tick()
            if step == STEPS:
                break
    pace.report()
    accelerator.end_training()


if __name__ == "__main__":
    main()
