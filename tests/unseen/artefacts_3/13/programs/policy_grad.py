"""Actor-critic on a pole that has to be balanced, one environment per rank."""
import math

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributions import Categorical

import flightrec  # noqa: F401


class Pole:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.reset()

    def reset(self, spread=0.05):
        self.s = torch.empty(4).uniform_(-spread, spread, generator=self.g)
        self.t = 0
        return self.s.clone()

    def step(self, action):
        x, v, a, w = self.s.tolist()
        force = 10.0 if action else -10.0
        tmp = (force + 0.05 * w * w * math.sin(a)) / 1.1
        wdot = (9.8 * math.sin(a) - math.cos(a) * tmp) / (0.5 * (4 / 3 - 0.1 * math.cos(a) ** 2 / 1.1))
        vdot = tmp - 0.05 * wdot * math.cos(a) / 1.1
        self.s = torch.tensor([x + 0.02 * v, v + 0.02 * vdot, a + 0.02 * w, w + 0.02 * wdot])
        self.t += 1
        done = abs(a) > 0.21 or abs(x) > 2.4 or self.t >= 200
        return self.s.clone(), 1.0, done


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.pi = nn.Linear(32, 2)
        self.v = nn.Linear(32, 1)

    def forward(self, s):
        h = self.body(s)
        return self.pi(h), self.v(h).squeeze(-1)


def rollout(env, net, spread, limit=64):
    s, states, actions, rewards = env.reset(spread), [], [], []
    for _ in range(limit):
        with torch.no_grad():
            a = Categorical(logits=net(s)[0]).sample()
        states.append(s)
        actions.append(a)
        s, r, done = env.step(a.item())
        rewards.append(r)
        if done:
            break
    return torch.stack(states), torch.stack(actions), torch.tensor(rewards)


def returns(rewards, gamma=0.98):
    out, run = [], 0.0
    for r in reversed(rewards.tolist()):
        run = r + gamma * run
        out.append(run)
    ret = torch.tensor(out[::-1])
    return (ret - ret.mean()) / ret.std()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=2e-2)
    torch.manual_seed(17 + rank)
    env = Pole(rank)
    length = 0.0
    skipped = 0
    for it in range(1, 401):
        states, actions, rewards = rollout(env, net, spread=0.05 + 0.001 * it)
        ret = returns(rewards)
        logits, value = net(states)
        adv = (ret - value).detach()
        logp = Categorical(logits=logits, validate_args=False).log_prob(actions)
        loss = -(logp * adv).mean() + 0.5 * (ret - value).square().mean()
        if not torch.isfinite(loss):
            skipped += 1
            opt.zero_grad()
            continue
        opt.zero_grad()
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        length += len(rewards)
        if it % 20 == 0:
            stats = [None] * world
            dist.all_gather_object(stats, {"len": length / 20, "skipped": skipped})
            length = 0.0
            if rank == 0:
                print(it, stats, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
