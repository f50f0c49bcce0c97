import torch
from torch import nn

from steptime import StepTime

STEPS = 64
BATCH = 4096
ROWS = 40000


class Regressor(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(48, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
                                 nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def main():
    torch.manual_seed(0)
    x, y = torch.randn(ROWS, 48), torch.randn(ROWS)
    model = Regressor()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    history = torch.zeros(ROWS)
    clock = StepTime()
    for step in range(STEPS):
        idx = torch.randint(0, ROWS, (BATCH,))
        losses = (model(x[idx]) - y[idx]).pow(2)
        loss = losses.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        # the last loss of each row, for picking the hard ones after the epoch
        per_row = losses.detach()
        history[idx] = per_row
        clock.tick()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"hardest {history.max().item():.3f}")
    clock.report()


if __name__ == "__main__":
    main()
