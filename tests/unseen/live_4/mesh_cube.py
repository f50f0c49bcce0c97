"""2 x 2 x 2: pipeline, data and tensor axes; each stage has its own rhythm of reductions."""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

D, MICRO = 16, 4


class Stage:
    def __init__(self, mesh):
        self.tp, self.dp, self.pp = (mesh.get_group(a) for a in ("tp", "dp", "pp"))
        self.index = dist.get_rank(self.pp)
        self.peer = dist.get_global_rank(self.pp, 1 - self.index)
        self.w = torch.randn(D, D) / D
        self.grad = torch.zeros_like(self.w)

    def matmul(self, x):
        y = x @ self.w
        dist.all_reduce(y, group=self.tp)
        return y.tanh()

    def first(self):
        xs = [torch.randn(8, D) for _ in range(MICRO)]
        for x in xs:
            dist.broadcast(x, dist.get_global_rank(self.tp, 0), group=self.tp)
        sends = [dist.isend(self.matmul(x), self.peer, tag=i) for i, x in enumerate(xs)]
        for i, x in enumerate(xs):
            g = torch.empty(8, D)
            dist.recv(g, self.peer, tag=100 + i)
            self.grad += x.T @ g
        for s in sends:
            s.wait()

    def last(self):
        for i in range(MICRO):
            h = torch.empty(8, D)
            dist.recv(h, self.peer, tag=i)
            y = self.matmul(h)
            worst = y.abs().max()
            dist.all_reduce(worst, op=dist.ReduceOp.MAX, group=self.dp)      # this stage only
            e = y / worst.clamp(min=1e-3) - 0.1
            self.grad += h.T @ e
            dist.send(e @ self.w.T, self.peer, tag=100 + i)

    def update(self, step):
        if self.index == 1 or step % 3 == 2:            # the first stage accumulates
            dist.all_reduce(self.grad, group=self.dp)
            self.w -= 0.01 * self.grad
            self.grad.zero_()


def main():
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    torch.manual_seed(mesh.get_rank())
    stage = Stage(mesh)
    for step in range(90):
        stage.first() if stage.index == 0 else stage.last()
        stage.update(step)
        if step % 30 == 29:
            norm = stage.w.norm()
            dist.reduce(norm, dst=0)
            if mesh.get_rank() == 0:
                print(step + 1, float(norm), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
