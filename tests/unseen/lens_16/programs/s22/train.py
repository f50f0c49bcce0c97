import copy
import statistics
import time

import torch
from torch.nn import functional as F

from agent import Arena, Critic, Memory


def main(steps=60, batch=2048):
    torch.manual_seed(0)
    arena, memory, critic = Arena(), Memory(), Critic()
    slow = copy.deepcopy(critic).requires_grad_(False)
    optimizer = torch.optim.Adam(critic.parameters(), lr=5e-4)
    best, since, times = float("inf"), 0, []
    for step in range(steps):
        began = time.perf_counter()
        with torch.no_grad():
            actions = critic(arena.state).argmax(1)
            actions = torch.where(torch.rand(len(actions)) < 0.1, torch.randint(0, 6, actions.shape), actions)
        before, reward, after, done = arena.move(actions)
        memory.add(before, actions, reward, after, done)
        s, a, r, n, d = memory.draw(batch)
        with torch.no_grad():
            target = r + 0.98 * slow(n).max(1).values * ~d
        loss = F.smooth_l1_loss(critic(s).gather(1, a[:, None]).squeeze(1), target)
        if not torch.isfinite(loss):
            raise RuntimeError("the critic has diverged")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < best:
            best, since = loss.detach(), 0
        else:
            since += 1
        if since > 20:
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
            since = 0
        if step % 20 == 19:
            slow.load_state_dict(critic.state_dict())
        times.append(1e3 * (time.perf_counter() - began))
    print(f"best loss {float(best):.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
