import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from memory import Memory


def layers(*widths):
    parts = []
    for a, b in zip(widths, widths[1:]):
        parts += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class World:
    """A small arm; the gain is large where it moves as it was asked."""

    def __init__(self, arms=32, seen=20):
        self.now = torch.randn(arms, seen)

    def move(self, done):
        before = self.now
        gain = (before[:, :done.shape[1]] * done).sum(1).tanh()
        self.now = 0.9 * before + 0.3 * torch.randn_like(before)
        return before, done, gain


def main(steps=60, batch=256):
    memory, world = Memory(), World()
    actor, critic = layers(20, 512, 512, 4), layers(24, 512, 512, 512, 1)
    actor_step = torch.optim.Adam(actor.parameters(), lr=3e-4, fused=True)
    critic_step = torch.optim.Adam(critic.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        with torch.no_grad():
            done = (actor(world.now).tanh() + 0.2 * torch.randn(len(world.now), 4)).clamp(-1, 1)
        memory.put(*world.move(done))
        seen, done, gain = memory.draw(batch)
        error = F.mse_loss(critic(torch.cat((seen, done), 1)).squeeze(1), gain)
        critic_step.zero_grad()
        error.backward()
        critic_step.step()
        critic.requires_grad_(False)
        worth = critic(torch.cat((seen, actor(seen).tanh()), 1)).mean()
        actor_step.zero_grad()
        (-worth).backward()
        actor_step.step()
        critic.requires_grad_(True)
        times.append(1e3 * (time.perf_counter() - began))
    print(f"error {error.item():.6f}, worth {worth.item():.4f} after {len(times)} steps")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
