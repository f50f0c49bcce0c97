import copy
import statistics
import time

import torch
from torch import nn

from waves import Waves, sequences


@torch.no_grad()
def validate(model, x, y):
    model.eval()
    loss = nn.functional.mse_loss(model(x, None)[0], y).item()
    model.train()
    return loss


def main(steps=62, batch=24):
    torch.manual_seed(0)
    model = Waves()
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    x, y = sequences(count=24)
    vx, vy = sequences(count=16, seed=5)
    best, kept, times, state = float("inf"), None, [], None
    for step in range(steps):
        begin = time.perf_counter()
        part = slice(40 * (step % 8), 40 * (step % 8) + 40)
        if step % 8 == 0:
            state = None
        out, state = model(x[:batch, part], state)
        state = tuple(s.detach() for s in state)
        loss = nn.functional.mse_loss(out, y[:batch, part])
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.4f}")
        if step % 30 == 29:
            score = validate(model, vx[:, :40], vy[:, :40])
            if score < best:
                best, kept = score, copy.deepcopy(model.state_dict())
        times.append(1e3 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
