import torch
from torch import nn
from torch.utils.data import DataLoader

from images import Images
from steptime import StepTime

STEPS = 64
BATCH = 32


def build():
    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
    return nn.Sequential(block(3, 16), nn.MaxPool2d(2), block(16, 32), nn.MaxPool2d(2), block(32, 64),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def main():
    torch.manual_seed(0)
    model = build()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    loader = DataLoader(Images(), batch_size=BATCH, shuffle=True)
    clock = StepTime()
    for step, (x, y) in enumerate(loader):  #: LINE
        if step == STEPS:
            break
        loss = loss_fn(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        clock.tick()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    clock.report()


if __name__ == "__main__":
    main()
