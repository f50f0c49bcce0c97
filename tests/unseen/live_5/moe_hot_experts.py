"""Expert parallel MoE, one expert on each rank: very uneven routing, an expert may get nothing at all; the hot one changes."""
import torch
import torch.distributed as dist
from torch import nn

DIM, TOKENS, STEPS = 64, 96, 420


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, send, recv):
        ctx.send, ctx.recv = send, recv
        out = x.new_empty(sum(recv), x.shape[1])
        dist.all_to_all_single(out, x.contiguous(), recv, send)
        return out

    @staticmethod
    def backward(ctx, grad):
        out = grad.new_empty(sum(ctx.send), grad.shape[1])
        dist.all_to_all_single(out, grad.contiguous(), ctx.send, ctx.recv)
        return out, None, None


class MoELayer(nn.Module):
    def __init__(self, world, rank):
        super().__init__()
        self.world = world
        torch.manual_seed(0)
        self.gate = nn.Linear(DIM, world)
        torch.manual_seed(1 + rank)
        self.expert = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x, bias):
        weight, which = (self.gate(x) + bias).softmax(-1).max(-1)
        order = which.argsort(stable=True)
        counts = torch.bincount(which, minlength=self.world)
        got = torch.empty_like(counts)
        dist.all_to_all_single(got, counts)
        send, recv = counts.tolist(), got.tolist()
        rows = Exchange.apply(x[order], send, recv)
        done = self.expert(rows)  # also with no rows, so that every rank takes part in both exchanges
        back = Exchange.apply(done, recv, send)
        out = torch.empty_like(x).index_copy(0, order, back)
        return x + weight[:, None] * out, sum(recv)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    layer = MoELayer(world, rank)
    torch.manual_seed(50)
    head = nn.Linear(DIM, 8)
    shared = list(layer.gate.parameters()) + list(head.parameters())
    opt = torch.optim.Adam(list(layer.expert.parameters()) + shared, lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    empty = 0
    for step in range(STEPS):
        x = torch.randn(TOKENS, DIM, generator=g)
        y = x[:, :8].argmax(1)
        bias = torch.zeros(world)
        bias[(step // 15) % world] = 6.0  # the topic of these batches
        bias[(step // 15 + 2) % world] = -30.0  # nobody asks for this expert now
        out, load = layer(x, bias)
        empty += load == 0
        loss = nn.functional.cross_entropy(head(out), y)
        opt.zero_grad()
        loss.backward()
        for p in shared:
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if step % 60 == 0:
            loads = [None] * world
            dist.all_gather_object(loads, load)
            if rank == 0:
                print(f"step {step} loss {loss.item():.3f} loads {loads}", flush=True)
    print(f"[{rank}] steps without a token: {empty}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
