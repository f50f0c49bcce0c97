"""Pipeline by hand, 1F1B, four stages; the number of micro-batches grows during the run (batch-size ramp)."""
import torch
import torch.distributed as dist
from torch import nn

DIM, MICRO = 96, 8
RAMP = [(0, 2), (60, 4), (120, 8), (180, 12)]
STEPS = 220


def micro_batches(step):
    return [m for s, m in RAMP if s <= step][-1]


def stage_of(rank, last):
    torch.manual_seed(100 + rank)
    layers = []
    for _ in range(2):
        layers += [nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM), nn.LayerNorm(DIM)]
    if rank == last:
        layers.append(nn.Linear(DIM, 12))
    return nn.Sequential(*layers)


class Pipe:
    def __init__(self, rank, world):
        self.rank, self.last, self.world = rank, world - 1, world
        self.stage = stage_of(rank, world - 1)
        self.pending = []

    def send(self, t, to):
        self.pending.append((dist.isend(t, to), t))

    def forward(self, x, target):
        if self.rank > 0:
            x = torch.empty(MICRO, DIM)
            dist.recv(x, self.rank - 1)
            x.requires_grad_()
        out = self.stage(x)
        if self.rank == self.last:
            out = nn.functional.cross_entropy(out, target)
        else:
            self.send(out.detach(), self.rank + 1)
        return x, out

    def backward(self, x, out, scale):
        if self.rank == self.last:
            (out * scale).backward()
        else:
            grad = torch.empty_like(out)
            dist.recv(grad, self.rank + 1)
            out.backward(grad)
        if self.rank > 0:
            self.send(x.grad, self.rank - 1)

    def step(self, xs, ys):
        n = len(xs)
        warm = min(self.last - self.rank, n)
        kept, done, losses = [], 0, []
        for i in range(n):
            kept.append(self.forward(xs[i], ys[i]))
            if i >= warm:
                self.backward(*kept[done], 1 / n)
                done += 1
        while done < n:
            self.backward(*kept[done], 1 / n)
            done += 1
        for work, _ in self.pending:
            work.wait()
        self.pending.clear()
        return sum(o.item() for _, o in kept) / n if self.rank == self.last else 0.0


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    pipe = Pipe(rank, world)
    opt = torch.optim.AdamW(pipe.stage.parameters(), lr=1e-3)
    for step in range(STEPS):
        g = torch.Generator().manual_seed(step)
        n = micro_batches(step)
        xs = torch.randn(n, MICRO, DIM, generator=g)
        ys = xs[:, :, :12].argmax(2)
        opt.zero_grad()
        loss = pipe.step(xs.unbind(0), ys.unbind(0))
        norm = sum(p.grad.pow(2).sum() for p in pipe.stage.parameters())
        dist.all_reduce(norm)
        for p in pipe.stage.parameters():
            p.grad /= max(1.0, norm.sqrt().item())
        opt.step()
        if rank == world - 1 and step % 20 == 0:
            print(f"step {step} micro-batches {n} loss {loss:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
