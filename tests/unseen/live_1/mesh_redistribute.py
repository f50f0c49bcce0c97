"""2-D mesh of DTensors: rows hold data, columns hold features."""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor


class Whitening:
    """running covariance of the features; refreshed when it has drifted"""

    def __init__(self, mesh, d):
        self.mesh = mesh
        self.cov = distribute_tensor(torch.eye(d), mesh, [Replicate(), Shard(0)])
        self.reference = self.cov.to_local().clone()
        self.refreshed = 0

    def update(self, x):
        new = x.t() @ x / x.shape[0]
        local = new.redistribute(self.mesh, [Replicate(), Shard(0)]).to_local()
        mixed = 0.9 * self.cov.to_local() + 0.1 * local
        self.cov = DTensor.from_local(mixed, self.mesh, [Replicate(), Shard(0)], run_check=False)

    def drifted(self):
        now = self.cov.to_local()
        return ((now - self.reference).norm() / self.reference.norm()).item() > 1.0

    def refresh(self):
        full = self.cov.redistribute(self.mesh, [Replicate(), Replicate()]).to_local()  #: LINE
        self.reference = self.cov.to_local().clone()
        self.refreshed += 1
        return torch.linalg.eigvalsh(full)


def features(step, n=16, d=8):
    g = torch.Generator().manual_seed(step)
    x = torch.randn(n, d, generator=g)
    if step >= 14:
        x[:, : d // 2] *= 2.5
    return x


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "feat"))
    wh = Whitening(mesh, 8)
    for step in range(40):
        x = distribute_tensor(features(step), mesh, [Shard(0), Shard(1)])
        wh.update(x)
        if wh.drifted():  #: LINE
            eig = wh.refresh()
            print(f"rank {rank} step {step}: refreshed, top {eig[-1]:.3f}", flush=True)
        if rank == 0:
            print("step", step, flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
