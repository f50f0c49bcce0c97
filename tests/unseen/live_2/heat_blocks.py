"""Heat equation on a 2x2 grid of blocks; each block swaps its borders with its neighbours."""
import torch
import torch.distributed as dist

N = 700


class Block:
    def __init__(self):
        self.rank = dist.get_rank()
        self.row, self.col = divmod(self.rank, 2)
        g = torch.Generator().manual_seed(self.rank)
        self.u = torch.rand(N, N, generator=g)
        self.beside = self.row * 2 + (1 - self.col)
        self.above = (1 - self.row) * 2 + self.col

    def swap(self, peer, out, first):
        """Blocking exchange: one side speaks first, the other listens first."""
        box = torch.empty_like(out)
        if first:
            dist.send(out, peer)
            dist.recv(box, peer)
        else:
            dist.recv(box, peer)
            dist.send(out, peer)
        return box

    def border(self, axis, deep):
        edge = self.u[:, -deep:] if axis == 1 else self.u[-deep:, :]
        return edge.contiguous()

    def step(self):
        h = self.swap(self.beside, self.border(1, 1), first=self.col == 0)
        v = self.swap(self.above, self.border(0, 1), first=self.row == 0)
        self.relax(h.mean() + v.mean())

    def wide_step(self):
        """Every so often several layers are sent, which saves seven small swaps."""
        for axis, peer in ((0, self.above), (1, self.beside)):
            self.swap(peer, self.border(axis, 8), first=self.row == 0)  #: LINE
        self.relax(torch.zeros(()))

    def relax(self, edge):
        u = self.u
        for _ in range(12):
            lap = u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - 4 * u
            u = u + 0.1 * lap
        self.u = u + 1e-4 * edge


def main():
    dist.init_process_group("gloo")
    b = Block()
    for it in range(1, 81):
        if it % 25 == 0:
            b.wide_step()
        else:
            b.step()
        if it % 10 == 0:
            heat = b.u.sum()
            dist.all_reduce(heat)
            if b.rank == 0:
                print(f"iteration {it} heat {heat.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
