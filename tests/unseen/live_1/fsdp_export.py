"""FSDP2 training with a periodic export of the full weights."""
import io

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def mlp(d=20):
    return nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, d))


class Exporter:
    def __init__(self, every):
        self.every = every
        self.best = float("inf")
        self.exports = 0

    def maybe(self, model, step, loss):
        if step % self.every:
            return
        if loss < self.best:  #: LINE
            self.best = loss
            self.export(model, step)

    def export(self, model, step):
        opts = StateDictOptions(full_state_dict=True, cpu_offload=True)
        sd = get_model_state_dict(model, options=opts)  #: LINE
        self.exports += 1
        if dist.get_rank() == 0:
            buf = io.BytesIO()
            torch.save(sd, buf)
            print(f"export {self.exports} of step {step}: {len(buf.getvalue())} bytes", flush=True)


def batches(rank, n):
    g = torch.Generator().manual_seed(0)
    for k in range(n):
        scale = 3.0 if (rank == 3 and k > 28) else 1.0 + 0.01 * rank
        yield scale * torch.randn(12, 20, generator=g)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = mlp()
    for mod in model:
        if isinstance(mod, nn.Linear):
            fully_shard(mod, mp_policy=MixedPrecisionPolicy())
    fully_shard(model)
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    exporter = Exporter(every=10)
    for step, x in enumerate(batches(rank, 60), 1):
        loss = (model(x) - x.cumsum(1) * 0.1).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        exporter.maybe(model, step, loss.item())
        if rank == 0 and step % 5 == 0:
            print(step, round(loss.item(), 4), flush=True)
    dist.destroy_process_group()


main()
