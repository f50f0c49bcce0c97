import statistics
import time

import torch
import torch.distributed as dist

from averaging import average_gradients, broadcast_parameters
from policy import ActorCritic


class PointMass:
    """Many small worlds at once; the action pushes, the reward is nearness."""

    def __init__(self, count, g):
        self.g, self.drift = g, torch.randn(8, 48, generator=g) * 0.05
        self.state = torch.randn(count, 48, generator=g)

    def step(self, action):
        self.state = 0.97 * self.state + action @ self.drift
        self.state += 0.02 * torch.randn(self.state.shape, generator=self.g)
        return -self.state.square().mean(1)


def main(steps=62, worlds=512):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    env = PointMass(worlds, torch.Generator().manual_seed(rank))
    net = ActorCritic()
    broadcast_parameters(net)
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-4)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        policy, value = net(env.state)
        action = policy.sample()
        reward = env.step(action)
        with torch.no_grad():
            goal = reward + 0.95 * net(env.state)[1]
        gain = (goal - value).detach()
        loss = -(policy.log_prob(action).sum(1) * gain).mean() + 0.5 * (goal - value).square().mean()
        loss = loss - 1e-3 * policy.entropy().sum(1).mean()
        opt.zero_grad()
        loss.backward()
        average_gradients(net)
        opt.step()
        times.append(1e3 * (time.perf_counter() - begin))
    if rank == 0:
        times = times[3:]
        print(f"reward {reward.mean().item():.3f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
