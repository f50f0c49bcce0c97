import torch
from torch import nn

from steptime import StepTime
from table import Table

STEPS = 64


def main():
    torch.manual_seed(0)
    table = Table(6000, 80)
    model = nn.Sequential(nn.BatchNorm1d(80), nn.Linear(80, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(),
                          nn.Linear(384, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_fn = nn.BCEWithLogitsLoss()
    clock = StepTime()
    for step in range(STEPS):
        x, y = table.batch(1024)
        loss = loss_fn(model(x).squeeze(-1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        clock.tick()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    clock.report()


if __name__ == "__main__":
    main()
