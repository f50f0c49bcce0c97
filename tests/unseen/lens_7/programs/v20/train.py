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
    history = {}
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
        for i in range(BATCH):
            history[idx[i].item()] = per_row[i].item()  #: LINE
        clock.tick()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    values = list(history.values())
    print(f"hardest {max(values):.3f} of {len(values)}")
    clock.report()


if __name__ == "__main__":
    main()
