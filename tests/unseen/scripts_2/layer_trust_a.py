"""Row-sharded weights as DTensors with a LARS-like step: one trust ratio per layer."""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

SIZES = {"stem": (16, 8), "mid": (12, 16), "head": (5, 12)}


class ShardedMLP:
    def __init__(self, mesh):
        g = torch.Generator().manual_seed(0)
        self.mesh = mesh
        self.weights = {}
        for name, shape in SIZES.items():
            full = torch.randn(*shape, generator=g) / shape[1] ** 0.5
            self.weights[name] = distribute_tensor(full, mesh, [Shard(0)]).requires_grad_()

    def train_only(self, names):
        for name, w in self.weights.items():
            w.requires_grad_(name in names)

    def __call__(self, x):
        for name, w in self.weights.items():
            x = x @ w.redistribute(self.mesh, [Replicate()]).to_local(grad_placements=[Replicate()]).T
            if name != "head":
                x = torch.relu(x)
        return x


class Lars:
    def __init__(self, model, lr=0.05, trust=0.1):
        self.model, self.lr, self.trust = model, lr, trust

    @torch.no_grad()
    def step(self):
        for name, w in self.model.weights.items():
            if w.grad is None:
                continue
            grad, value = w.grad.to_local(), w.to_local()
            sums = torch.stack([value.pow(2).sum(), grad.pow(2).sum()])
            dist.all_reduce(sums)
            ratio = self.trust * sums[0].sqrt() / (sums[1].sqrt() + 1e-6)
            value -= self.lr * ratio.clamp(max=10.0) * grad

    def zero_grad(self):
        for w in self.model.weights.values():
            w.grad = None


def main(steps=8, warmup=3):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = ShardedMLP(mesh)
    opt = Lars(model)
    g = torch.Generator().manual_seed(7)
    for step in range(steps):
        model.train_only({"stem", "mid"} if step < warmup else set(SIZES))
        x = torch.randn(10, 8, generator=g)
        y = x[:, :5].sign()
        loss = (model(x) - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if dist.get_rank() == 0:
            print(f"step {step}: {loss.item():.4f}", flush=True)
    rows = torch.tensor([w.to_local().shape[0] for w in model.weights.values()])
    dist.all_reduce(rows)
    assert rows.tolist() == [s[0] for s in SIZES.values()]
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
