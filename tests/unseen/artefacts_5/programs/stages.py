"""Four pipeline stages on four ranks; activations and gradients by send and recv."""
import frdump  # noqa: F401
import torch
import torch.distributed as dist
import torch.nn as nn

ROWS, DIM, MICRO, STEPS = 8, 32, 4, 30
GRAD_TO = {3: 2, 2: 0, 1: 0}
GRAD_FROM = {0: 1, 1: 2, 2: 3}


def forward(stage, rank, last, xs):
    kept = []
    for m in range(MICRO):
        if rank == 0:
            inp = xs[m]
        else:
            inp = torch.empty(ROWS, DIM)
            dist.recv(inp, src=rank - 1)
            inp.requires_grad_()
        out = stage(inp)
        if rank != last:
            dist.send(out.detach(), dst=rank + 1)
        kept.append((inp, out))
    return kept


def backward(rank, last, kept):
    total = 0.0
    for inp, out in kept:
        if rank == last:
            loss = out.pow(2).mean() / MICRO
            total += loss.item()
            loss.backward()
        else:
            grad = torch.empty(ROWS, DIM)
            dist.recv(grad, src=GRAD_FROM[rank])
            out.backward(grad)
        if rank != 0:
            dist.send(inp.grad, dst=GRAD_TO[rank])
    return total


def main():
    dist.init_process_group("gloo")
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    torch.manual_seed(rank)
    stage = nn.Sequential(nn.Linear(DIM, DIM), nn.Tanh())
    opt = torch.optim.SGD(stage.parameters(), lr=0.1)
    with torch.no_grad():
        for _ in range(3):
            forward(stage, rank, last, torch.randn(MICRO, ROWS, DIM))
    dist.barrier()
    if rank == last:
        print("warm-up done", flush=True)
    for step in range(STEPS):
        kept = forward(stage, rank, last, torch.randn(MICRO, ROWS, DIM))
        loss = backward(rank, last, kept)
        opt.step()
        opt.zero_grad()
        if rank == last:
            print(f"step {step} loss {loss:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
