"""Three-stage hand-written pipeline: isend/irecv of activations, fill then drain."""
import torch
import torch.distributed as dist
from torch import nn
from datetime import timedelta

BATCH, HIDDEN, MICRO, STEPS = 22, 16, 4, 4


def stage_module(rank, world):
    torch.manual_seed(40 + rank)
    if rank == world - 1:
        return nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 3))
    return nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU())


def micro_sizes():
    sizes = [MICRO] * (BATCH // MICRO)
    if BATCH % MICRO:
        sizes.append(BATCH % MICRO)
    return sizes


def load_batch(step):
    g = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, HIDDEN, generator=g)
    return x, x[:, :3].argmax(1)


def first_stage_chunks(x):
    return [c for c in torch.split(x, MICRO)]


def forward_pass(stage, rank, world, step):
    x, y = load_batch(step)
    saved, sends = [], []
    if rank == 0:
        for chunk in first_stage_chunks(x):
            out = stage(chunk)
            sends.append(dist.isend(out.detach(), rank + 1))
            saved.append((None, out))
    else:
        bufs = [torch.empty(n, HIDDEN) for n in micro_sizes()]
        reqs = [dist.irecv(b, rank - 1) for b in bufs]
        for buf, req in zip(bufs, reqs):
            req.wait()
            inp = buf.requires_grad_()
            out = stage(inp)
            if rank < world - 1:
                sends.append(dist.isend(out.detach(), rank + 1))
            saved.append((inp, out))
    return saved, sends, y


def backward_pass(saved, rank, world, y):
    sends, total = [], 0.0
    targets = torch.split(y, MICRO)
    for i, (inp, out) in enumerate(saved):
        if rank == world - 1:
            loss = nn.functional.cross_entropy(out, targets[i], reduction="sum") / BATCH
            total += loss.item()
            loss.backward()
        else:
            grad = torch.empty_like(out)
            dist.irecv(grad, rank + 1).wait()
            out.backward(grad)
        if rank > 0:
            sends.append(dist.isend(inp.grad, rank - 1))
    return sends, total


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    stage = stage_module(rank, world)
    opt = torch.optim.SGD(stage.parameters(), lr=0.1)
    for step in range(STEPS):
        opt.zero_grad()
        saved, fwd, y = forward_pass(stage, rank, world, step)
        bwd, loss = backward_pass(saved, rank, world, y)
        # older sends are long gone by now, newest first is fine
        for work in reversed(fwd + bwd):
            work.wait()
        opt.step()
        if rank == world - 1:
            print(f"step {step} loss {loss:.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
