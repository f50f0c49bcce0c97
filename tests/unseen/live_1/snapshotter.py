"""Adapter tuning with snapshots every few steps."""
import os
import tempfile

import torch
import torch.distributed as dist

OUT = tempfile.gettempdir()


def is_chief():
    return dist.get_rank() == 0


class Adapter(torch.nn.Module):
    def __init__(self, d=24, r=4):
        super().__init__()
        self.a = torch.nn.Parameter(torch.randn(d, r) * 0.02)
        self.b = torch.nn.Parameter(torch.zeros(r, d))

    def forward(self, x):
        return x + x @ self.a @ self.b


def write(state, path):
    tmp = path + ".part"
    torch.save(state, tmp)
    os.replace(tmp, path)


def snapshot(model, step):
    if not is_chief():
        return
    path = os.path.join(OUT, f"adapter_{os.getpid()}_{step}.pt")
    write(model.state_dict(), path)
    dist.barrier()  #: LINE
    os.unlink(path)
    print("snapshot of step", step, flush=True)


def allreduce_(model):
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    off = 0
    for p in model.parameters():
        p.grad.copy_(flat[off:off + p.numel()].view_as(p))
        off += p.numel()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Adapter()
    opt = torch.optim.AdamW(model.parameters(), 1e-2)
    torch.manual_seed(dist.get_rank() + 1)
    for step in range(1, 101):
        x = torch.randn(8, 24)
        loss = (model(x) - x.roll(1, -1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        allreduce_(model)
        opt.step()
        if step % 40 == 0:
            snapshot(model, step)
        if is_chief() and step % 10 == 0:
            print(step, round(loss.item(), 4), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
