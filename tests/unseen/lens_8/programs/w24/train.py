"""A tabular model; the whole table lies in memory."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pace import Pace

STEPS = 64
BATCH = 360


def main():
    torch.manual_seed(0)
    table = torch.randn(STEPS * BATCH, 100)
    target = table[:, :5].prod(1)
    loader = DataLoader(TensorDataset(table, target), batch_size=BATCH, shuffle=True, num_workers=0)
    model = nn.Sequential(nn.Linear(100, 1024), nn.SiLU(), nn.Linear(1024, 1024), nn.SiLU(),
                          nn.Linear(1024, 1024), nn.SiLU(), nn.Linear(1024, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pace = Pace()
    total = 0.0
    for step, (rows, wanted) in enumerate(loader):
        loss = F.mse_loss(model(rows).squeeze(-1), wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.item()
        pace.tick()
    print(f"mean loss {total / STEPS:.4f}")
    pace.report()


if __name__ == "__main__":
    main()
