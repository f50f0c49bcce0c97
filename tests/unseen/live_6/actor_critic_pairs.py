"""Four ranks: 0 and 1 train the actor, 2 and 3 the critic. Both use the same step function."""
import torch
import torch.distributed as dist
import torch.nn as nn


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, o))


class Role:
    def __init__(self, name, ranks, net, group):
        self.name, self.ranks, self.net, self.group = name, ranks, net, group
        self.opt = torch.optim.Adam(net.parameters(), lr=3e-4)
        self.kl = 0.0

    def sync(self):
        flat = torch.cat([p.grad.flatten() for p in self.net.parameters()])
        dist.all_reduce(flat, group=self.group)
        flat /= len(self.ranks)
        pos = 0
        for p in self.net.parameters():
            p.grad.copy_(flat[pos:pos + p.numel()].view_as(p))
            pos += p.numel()

    def step(self, loss):
        self.opt.zero_grad()
        loss.backward()
        self.sync()
        self.opt.step()


def actor_loss(net, obs, act, adv, old):
    logp = torch.log_softmax(net(obs), -1).gather(1, act)
    ratio = (logp - old).exp()
    return -(torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv)).mean(), (old - logp).mean().detach()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    actors, critics = dist.new_group([0, 1]), dist.new_group([2, 3])
    actor = rank < 2
    role = Role("actor", (0, 1), mlp(8, 5), actors) if actor else Role("critic", (2, 3), mlp(8, 1), critics)
    g = torch.Generator().manual_seed(50 + rank)

    for update in range(900):
        obs = torch.randn(64, 8, generator=g)
        if actor:
            act = torch.randint(0, 5, (64, 1), generator=g)
            adv = torch.randn(64, 1, generator=g)
            with torch.no_grad():
                old = torch.log_softmax(role.net(obs), -1).gather(1, act)
            for _ in range(2):
                loss, kl = actor_loss(role.net, obs, act, adv, old)
                role.step(loss)
            if update % 25 == 24:
                dist.all_reduce(kl, op=dist.ReduceOp.MAX)  #: LINE
                role.kl = kl.item()
        else:
            ret = obs[:, :1] * 2 + torch.randn(64, 1, generator=g) * 0.1
            role.step(nn.functional.mse_loss(role.net(obs), ret))
        if update % 30 == 29:
            score = torch.zeros(4)
            score[rank] = float(update)
            dist.all_reduce(score)
            if rank == 0:
                print(f"update {update} kl {role.kl:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
