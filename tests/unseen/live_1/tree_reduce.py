"""Hierarchical averaging for 16 ranks: islands of four, then their heads, then back."""
import torch
import torch.distributed as dist

ISLAND = 4


class Tree:
    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.island = self.heads = None
        for i in range(self.world // ISLAND):
            ranks = list(range(i * ISLAND, (i + 1) * ISLAND))
            g = dist.new_group(ranks)
            if self.rank in ranks:
                self.island = g
        self.heads = dist.new_group(list(range(0, self.world, ISLAND)))
        self.head = (self.rank // ISLAND) * ISLAND
        self.elected = self.head

    def demote(self, who):
        """the head of an island with a weak link hands its part to the next rank"""
        if self.head <= who < self.head + ISLAND:
            self.elected = who + 1

    def average(self, t):
        dist.reduce(t, dst=self.head, group=self.island)
        if self.rank == self.elected and self.rank % ISLAND == 0:  #: LINE
            dist.all_reduce(t, group=self.heads)
        dist.broadcast(t, src=self.head, group=self.island)
        return t / self.world


def weak_links(round_no):
    return [8] if round_no == 4 else []


def main():
    dist.init_process_group("gloo")
    tree = Tree()
    g = torch.Generator().manual_seed(tree.rank)
    w = torch.zeros(32)
    for rnd in range(8):
        for who in weak_links(rnd):
            tree.demote(who)
        step = torch.randn(32, generator=g)
        w += tree.average(step)
        if tree.rank == 0:
            print(f"round {rnd} |w| {w.norm():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
