import torch
import torch.distributed as dist
import torch.nn.functional as F


class ExpertLayer(torch.nn.Module):
    """One expert per rank. Tokens travel with all_to_all_single, their numbers travel before them."""

    def __init__(self, dim):
        super().__init__()
        self.world = dist.get_world_size()
        self.gate = torch.nn.Linear(dim, self.world)
        self.expert = torch.nn.Linear(dim, dim)
        self.last_sent = self.last_got = None

    def counts(self, sent):
        # the router settles after a while: no need to ask the others again
        if self.last_sent is not None and torch.equal(sent, self.last_sent):
            self.stable += 1
        else:
            self.stable = 0
        got = torch.empty_like(sent)
        dist.all_to_all_single(got, sent)
        if self.stable > 5:
            got = self.last_got                    #: LINE
        else:
            self.last_got = got
        self.last_sent = sent
        return got.tolist()

    def forward(self, x, force=None):
        choice = self.gate(x).argmax(-1) if force is None else force
        order = choice.argsort(stable=True)
        sent = torch.bincount(choice, minlength=self.world)
        n_out = sent.tolist()
        n_in = self.counts(sent)
        box = torch.empty(sum(n_in), x.shape[1])
        dist.all_to_all_single(box, x[order].contiguous(), n_in, n_out)  #: LINE
        box = F.relu(self.expert(box))
        back = torch.empty_like(x)
        dist.all_to_all_single(back, box.contiguous(), n_out, n_in)
        return back[order.argsort()]


@torch.no_grad()
def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    layer = ExpertLayer(24)
    gen = torch.Generator().manual_seed(rank)
    for step in range(600):
        x = torch.randn(64, 24, generator=gen)
        force = None
        if rank == 3 and step >= 120:                 # a shard of one language: its routing is even and fixed
            force = torch.arange(64) % world
        y = layer(x, force)
        if step % 40 == 0:
            norm = y.norm().reshape(1)
            dist.all_reduce(norm)
            if rank == 0:
                print(step, round(norm.item(), 3), flush=True)
    dist.destroy_process_group()


main()
