"""Point clouds of different sizes go round a ring; the size travels first."""
import torch
import torch.distributed as dist


class RaggedRing:
    def __init__(self):
        self.r, self.w = dist.get_rank(), dist.get_world_size()

    def shift(self, t):
        n = torch.tensor([t.shape[0]])
        m = torch.empty_like(n)
        ops = [dist.P2POp(dist.isend, n, (self.r + 1) % self.w), dist.P2POp(dist.irecv, m, (self.r - 1) % self.w)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        out = torch.empty(int(m), t.shape[1])
        todo = []
        if t.shape[0]:
            todo.append(dist.isend(t, (self.r + 1) % self.w, tag=1))
        if out.shape[0]:
            todo.append(dist.irecv(out, (self.r - 1) % self.w, tag=1))
        for work in todo:
            work.wait()
        return out


def nearest(a, b):
    if not len(a) or not len(b):
        return torch.full((len(a),), float("inf"))
    return torch.cdist(a, b).min(1).values


def cloud(rank, sweep):
    n = [0, 40, 7, 300, 1, 90][(rank + sweep) % 6]
    return torch.rand(n, 3, generator=torch.Generator().manual_seed(sweep * 10 + rank))


def main():
    dist.init_process_group("gloo")
    ring = RaggedRing()
    for sweep in range(12):
        mine = cloud(ring.r, sweep)
        best = torch.full((len(mine),), float("inf"))
        other = mine
        for hop in range(ring.w - 1):
            other = ring.shift(other)
            best = torch.minimum(best, nearest(mine, other))
        s = torch.stack([best.clamp(max=9).sum(), torch.tensor(float(len(best)))])
        dist.all_reduce(s)
        if ring.r == 0:
            print(f"sweep {sweep} mean distance {s[0] / s[1]:.4f} over {int(s[1])} points", flush=True)
    dist.destroy_process_group()


main()
