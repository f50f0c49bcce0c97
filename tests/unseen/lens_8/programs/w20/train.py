"""A policy network; the last weights of the head and the scaler are saved in each tenth step."""
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

from pace import Pace

STEPS = 64
BATCH = 480
SAVE_EVERY = 10


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 800), nn.Tanh(), nn.Linear(800, 800), nn.Tanh(),
                                  nn.Linear(800, 800), nn.Tanh())
        self.head = nn.Linear(800, 12)

    def forward(self, x):
        return self.head(self.body(x))


def save(path, model, step):
    state = {"head": model.head.state_dict(), "step": step}
    torch.save(state, path + ".part")
    os.replace(path + ".part", path)


def main():
    torch.manual_seed(0)
    model = Policy()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, STEPS + 1):
            observation = torch.randn(BATCH, 64)
            action = observation[:, :12].argmax(1)
            advantage = torch.rand(BATCH)
            loss = (F.cross_entropy(model(observation), action, reduction="none") * advantage).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step % SAVE_EVERY == 0:
                save(os.path.join(folder, "head.pt"), model, step)
            pace.tick()
    print(f"final loss {loss.item():.4f}")
    pace.report()


if __name__ == "__main__":
    main()
