"""Decentralised training of three sites: neighbours average their weights edge by edge."""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

EDGES = [(0, 1), (0, 2), (1, 2)]


class Site:
    def __init__(self):
        self.me = dist.get_rank()
        self.links = {e: dist.new_group(list(e)) for e in EDGES}
        self.mine = [e for e in EDGES if self.me in e]
        self.drift = {e: 0.0 for e in self.mine}
        torch.manual_seed(11)
        self.net = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1),
                                 nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(384, 10))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.02)

    def local_step(self, step):
        g = torch.Generator().manual_seed(1000 * self.me + step)
        x = torch.randn(24, 3, 32, 32, generator=g)
        y = torch.randint(0, 10, (24,), generator=g)
        self.opt.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.opt.step()
        return loss.item()

    def weights(self):
        return torch.cat([p.detach().reshape(-1) for p in self.net.parameters()])

    def load(self, flat):
        at = 0
        with torch.no_grad():
            for p in self.net.parameters():
                p.copy_(flat[at:at + p.numel()].view_as(p))
                at += p.numel()

    def other(self, edge):
        return edge[0] if edge[1] == self.me else edge[1]

    def average(self, step):
        order = list(self.mine)
        if step > 40:
            # visit the neighbour "after" me first, the ring spreads news faster that way
            order.sort(key=lambda e: (self.other(e) - self.me) % 3)  #: LINE
        for edge in order:
            mine = self.weights()
            both = mine.clone()
            dist.all_reduce(both, group=self.links[edge])
            both /= 2
            self.drift[edge] = (both - mine).norm().item()
            self.load(both)


def main():
    dist.init_process_group("gloo")
    site = Site()
    for step in range(1, 121):
        loss = site.local_step(step)
        site.average(step)
        if step % 10 == 0:
            far = max(site.drift.values())
            print(f"site {site.me} step {step} loss {loss:.3f} drift {far:.5f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
