import os
import tempfile

import torch
from torch import nn

from steptime import StepTime

STEPS = 66


class Gru(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.rnn = nn.GRU(24, dim, num_layers=2, batch_first=True)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1]).squeeze(-1)


def main():
    torch.manual_seed(0)
    model = Gru()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    clock = StepTime()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        for step in range(1, STEPS + 1):
            x = torch.randn(96, 40, 24)
            loss = nn.functional.mse_loss(model(x), x.mean((1, 2)))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 20 == 0:
                torch.save({"step": step, "model": model.state_dict()}, path)
            clock.tick()
    clock.report()


if __name__ == "__main__":
    main()
