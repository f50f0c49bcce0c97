"""Embedding table split by columns over the ranks; nearest neighbours of probe words for the log."""
import torch
import torch.distributed as dist
import torch.nn.functional as F


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        ctx.width = part.shape[-1]
        parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, part.contiguous())
        return torch.cat(parts, -1)

    @staticmethod
    def backward(ctx, grad):
        r = dist.get_rank()
        return grad[..., r * ctx.width:(r + 1) * ctx.width]


class SplitEmbedding(torch.nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.local = torch.nn.Embedding(n, d // dist.get_world_size())

    def forward(self, ids):
        return Gather.apply(self.local(ids))


class Probe:
    words = {3: "river", 9: "bank", 14: "loan"}

    @torch.no_grad()
    def __call__(self, table):
        ids = torch.tensor(list(self.words))
        v = F.normalize(table(ids), dim=-1)  #: LINE
        sim = v @ v.t()
        return {w: round(sim[k].sum().item() - 1, 3) for k, w in enumerate(self.words.values())}


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    table = SplitEmbedding(60, 24)
    opt = torch.optim.Adagrad(table.parameters(), 0.1)
    probe = Probe()
    data = torch.Generator().manual_seed(5)
    for step in range(50):
        a, b = torch.randint(0, 60, (2, 16), generator=data)
        loss = F.cosine_embedding_loss(table(a), table(b), torch.ones(16))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 19:
            print("step", step, probe(table), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
