import time

import accel
import torch
from guard import drop_bad
from torch import nn


def simulate_trajectories(n, length, state):
    """The host integrates the next set of trajectories."""
    out = []
    for _ in range(length):
        state = state + 0.01 * torch.sin(state @ state.t()).mean(1, keepdim=True)
        out.append(state)
    return torch.stack(out, 1).mean(1)


class Surrogate(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(24, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 24))

    def forward(self, s):
        return s + self.net(s)


torch.manual_seed(8)
model = accel.attach(Surrogate(), 6.0, 12.0)
params = list(model.parameters())
opt = torch.optim.Adam(params, lr=1e-3)
STEPS = 32
for step in range(STEPS):
    if step == 2:
        accel.stream.synchronize()
        t0 = time.perf_counter()
    states = simulate_trajectories(512, 14, torch.randn(512, 24))
    s = accel.to_device(states)
    loss = (model(s) - s.roll(1, 0)).square().mean()
    opt.zero_grad()
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in params]).norm().as_subclass(accel.DeviceTensor)
    drop_bad(params, norm)
    opt.step()
accel.stream.synchronize()
print(f"finished, {(time.perf_counter() - t0) / (STEPS - 2) * 1e3:.2f} ms/step", flush=True)
