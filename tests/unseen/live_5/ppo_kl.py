"""PPO on a toy control task: each rank plays its own environments, gradients are averaged by hand."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributions import Categorical

ENVS, HORIZON, ITERATIONS, PASSES = 16, 48, 60, 8
TARGET_KL = 0.03


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.pi, self.v = nn.Linear(128, 3), nn.Linear(128, 1)

    def forward(self, s):
        h = self.body(s)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


class Carts:
    """A cart on a line that must stay near a moving goal."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.state = torch.randn(ENVS, 4, generator=self.g)

    def step(self, action):
        x, v, goal, phase = self.state.unbind(1)
        v = 0.9 * v + 0.2 * (action.float() - 1)
        x = x + v
        phase = phase + 0.05
        goal = torch.sin(phase) + 0.05 * torch.randn(ENVS, generator=self.g)
        self.state = torch.stack([x.clamp(-3, 3), v, goal, phase], 1)
        return -(x - goal).abs()


def collect(net, envs):
    s, a, lp, r, v = [], [], [], [], []
    with torch.no_grad():
        for _ in range(HORIZON):
            state = envs.state
            pi, value = net(state)
            act = pi.sample()
            s.append(state), a.append(act), lp.append(pi.log_prob(act)), v.append(value)
            r.append(envs.step(act))
    returns, run = [], torch.zeros(ENVS)
    for reward in reversed(r):
        run = reward + 0.95 * run
        returns.append(run)
    returns = torch.stack(returns[::-1]).flatten()
    adv = returns - torch.stack(v).flatten()
    return torch.stack(s).flatten(0, 1), torch.stack(a).flatten(), torch.stack(lp).flatten(), returns, (adv - adv.mean()) / (adv.std() + 1e-6)


def average_gradients(net, world):
    for p in net.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world


def update(net, opt, batch, world):
    s, a, old, ret, adv = batch
    for i in range(PASSES):
        pi, value = net(s)
        ratio = (pi.log_prob(a) - old).exp()
        approx_kl = (old - pi.log_prob(a)).mean().item()
        if approx_kl > 1.5 * TARGET_KL:
            break  #: LINE
        policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        loss = policy + 0.1 * (value - ret).pow(2).mean() - 0.01 * pi.entropy().mean()
        opt.zero_grad()
        loss.backward()
        average_gradients(net, world)
        opt.step()
    return i


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = ActorCritic()
    torch.manual_seed(10 + rank)
    opt = torch.optim.Adam(net.parameters(), lr=3e-4)
    envs = Carts(77 + rank)
    spool = []  # finished rollouts, kept until the update that uses them
    for it in range(ITERATIONS):
        spool.append(collect(net, envs))
        # the simulator of rank 1 was restarted after 30 iterations and plays its spool from the beginning
        batch = spool[it - 30] if rank == 1 and it >= 30 else spool[it]
        passes = update(net, opt, batch, world)
        stats = torch.tensor([batch[3].mean().item(), float(passes)])
        dist.all_reduce(stats)
        if rank == 0:
            print(f"iteration {it} return {stats[0] / world:.3f} passes {stats[1] / world:.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
