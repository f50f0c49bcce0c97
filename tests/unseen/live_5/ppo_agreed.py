"""PPO: ranks play their own environments (episodes of very different length) and agree on when to stop the passes."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributions import Normal

ITERATIONS, STEPS, PASSES = 70, 96, 10
TARGET_KL = 0.01


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh())
        self.mu, self.v = nn.Linear(96, 1), nn.Linear(96, 1)
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, s):
        h = self.body(s)
        return Normal(self.mu(h).squeeze(-1), self.log_std.exp()), self.v(h).squeeze(-1)


class Pendulum:
    """Every reset searches a solvable start state, which takes an unpredictable number of tries."""

    def __init__(self, seed, n=12):
        self.g, self.n = torch.Generator().manual_seed(seed), n
        self.state = torch.stack([self.start() for _ in range(n)])

    def start(self):
        for _ in range(400):
            s = torch.randn(3, generator=self.g)
            if s.abs().max() < 0.25 + 0.3 * torch.rand(1, generator=self.g).item():
                break
        return s * 0.3

    def step(self, a):
        th, om, t = self.state.unbind(1)
        om = om + 0.1 * (th.sin() * 2 + a.clamp(-2, 2))
        th = th + 0.1 * om
        self.state = torch.stack([th, om, t + 0.01], 1)
        reward = -(th.pow(2) + 0.1 * om.pow(2)).clamp(max=10)
        for i in (th.abs() > 2).nonzero().flatten().tolist():
            self.state[i] = self.start()
        return reward


def rollout(net, env):
    out = [[] for _ in range(5)]
    with torch.no_grad():
        for _ in range(STEPS):
            pi, v = net(env.state)
            a = pi.sample()
            for kept, value in zip(out, (env.state, a, pi.log_prob(a), v, env.step(a))):
                kept.append(value)
    s, a, lp, v, r = (torch.stack(o) for o in out)
    ret, run = torch.zeros_like(r), torch.zeros(r.shape[1])
    for t in reversed(range(STEPS)):
        run = r[t] + 0.95 * run
        ret[t] = run
    return s.flatten(0, 1), a.flatten(), lp.flatten(), ret.flatten(), (ret - v).flatten()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = Policy()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    torch.manual_seed(rank + 1)
    env = Pendulum(rank)
    for it in range(ITERATIONS):
        s, a, old, ret, adv = rollout(net, env)
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        for passes in range(PASSES):
            pi, v = net(s)
            ratio = (pi.log_prob(a) - old).exp()
            kl = (old - pi.log_prob(a)).mean().detach()
            dist.all_reduce(kl)
            if kl.item() / world > 1.5 * TARGET_KL:
                break
            loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean() + 0.05 * (v - ret).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            for p in net.parameters():
                dist.all_reduce(p.grad)
                p.grad /= world
            opt.step()
        stats = torch.tensor([ret.mean().item(), float(passes)])
        dist.reduce(stats, 0)
        if rank == 0 and it % 5 == 0:
            print(f"iteration {it} return {stats[0] / world:.3f} passes {stats[1] / world:.0f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
