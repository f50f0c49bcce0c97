"""Summaries of documents on 2 ranks; each rank draws its share of every global batch."""
import statistics
import time
import torch
import torch.distributed as dist
from torch import nn
from deal import lengths_of, share

MS_PER_WORD = 0.06


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(500, 48)
        self.out = nn.Linear(48, 2)

    def forward(self, docs):
        time.sleep(MS_PER_WORD * sum(len(d) for d in docs) / 1e3)  # kernels: so much a word
        offsets = torch.tensor([0] + [len(d) for d in docs[:-1]]).cumsum(0)
        return self.out(self.emb(torch.cat(docs), offsets))


def sum_gradients(model):
    flat = nn.utils.parameters_to_vector([p.grad for p in model.parameters()])
    dist.all_reduce(flat)
    at = 0
    for p in model.parameters():
        p.grad.copy_(flat[at:at + p.numel()].view_as(p)).div_(dist.get_world_size())
        at += p.numel()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Reader()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    took = []
    for step in range(30):
        t0 = time.perf_counter()
        mine = share(lengths_of(step), rank, world)
        docs = [torch.randint(500, (n,)) for n in mine]
        loss = nn.functional.cross_entropy(model(docs), torch.zeros(len(docs), dtype=torch.long))
        loss.backward()
        sum_gradients(model)
        opt.step()
        opt.zero_grad()
        took.append(time.perf_counter() - t0)
    if rank == 0:
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


main()
