"""A regression with a short check on held-out rows after each tenth step."""
import torch
import torch.nn.functional as F
from torch import nn

from pace import Pace

STEPS = 66
BATCH = 400


class Net(nn.Module):
    def __init__(self, width=896):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(48, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                    nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, x):
        return self.layers(x)


def target(x):
    return torch.stack([x[:, :12].sum(1), x[:, 12:24].prod(1), x[:, 24:36].amax(1), x[:, 36:].mean(1)], 1)


@torch.no_grad()
def check(model, rows):
    model.eval()
    errors = (model(rows) - target(rows)).abs().mean(0)
    model.train()
    return errors.tolist()


def main():
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    held_out = torch.randn(64, 48)
    recent = []
    pace = Pace()
    for step in range(1, STEPS + 1):
        x = torch.randn(BATCH, 48)
        predicted = model(x)
        loss = F.smooth_l1_loss(predicted, target(x))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        recent = predicted[:2].flatten().tolist()
        if step % 10 == 0:
            errors = check(model, held_out)
            print(f"step {step} errors", " ".join(f"{e:.3f}" for e in errors))
        pace.tick()
    print("recent", [round(v, 2) for v in recent])
    pace.report()


if __name__ == "__main__":
    main()
