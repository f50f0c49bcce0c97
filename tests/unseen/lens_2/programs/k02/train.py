import time
import torch
import torch.distributed as dist
from torch import nn
from route import WORDS, draw, owner

STEPS = 24


class Expert(nn.Module):
    """Works 0.22 ms on each word it gets."""

    def __init__(self):
        super().__init__()
        self.emb, self.lin = nn.Embedding(WORDS, 24), nn.Linear(24, 24)

    def forward(self, words):
        time.sleep(0.00022 * len(words))
        return torch.tanh(self.lin(self.emb(words)))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    expert, head = Expert(), nn.Linear(24, 2)
    params = [*expert.parameters(), *head.parameters()]
    opt = torch.optim.SGD(params, lr=0.1)
    start = time.perf_counter()
    for step in range(STEPS):
        words = draw(step)
        mine = words[owner(words, world) == rank]
        loss = nn.functional.cross_entropy(head(expert(mine)), mine % 2)
        opt.zero_grad()
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in head.parameters()])
        dist.all_reduce(flat)
        head.weight.grad.copy_(flat[:48].view(2, 24) / world)
        head.bias.grad.copy_(flat[48:] / world)
        opt.step()
    if rank == 0:
        print(f"experts: {(time.perf_counter() - start) / STEPS * 1e3:.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
