"""Late-interaction retrieval: every rank scores its queries against the passages of all ranks (2 ranks)."""
import statistics
import time
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from interaction import gather_passages, pool


class Encoder(nn.Module):
    def __init__(self, tokens=48, width=128):
        super().__init__()
        self.shape = (tokens, width)
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        time.sleep(0.020)
        return self.gain * x.view(x.shape[0], *self.shape)


def contrastive(q, passages):
    logits = pool(q) @ pool(*passages).T / 0.07
    target = torch.arange(len(q)) + dist.get_rank() * len(q)
    return F.cross_entropy(logits, target)


@torch.no_grad()
def recall(q, passages):
    best = (pool(q) @ pool(*passages).T).argmax(1)
    return (best == torch.arange(len(q)) + dist.get_rank() * len(q)).float().mean()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    ask, tell = Encoder(tokens=8), Encoder()
    params = [*ask.parameters(), *tell.parameters()]
    opt = torch.optim.SGD(params, lr=0.1)
    asked, told = torch.randn(240, 8 * 128), torch.randn(240, 48 * 128)
    took, hits = [], []
    for step in range(30):
        t = time.perf_counter()
        q, p = ask(asked), tell(told)
        passages = gather_passages(p)
        loss = contrastive(q, passages)
        hits.append(recall(q, passages))
        loss.backward()
        flat = torch.cat([w.grad.flatten() for w in params])
        dist.all_reduce(flat)
        for w, g in zip(params, flat.split([w.numel() for w in params])):
            w.grad.copy_(g.view_as(w) / dist.get_world_size())
        opt.step(), opt.zero_grad()
        took.append(time.perf_counter() - t)
    if dist.get_rank() == 0:
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


main()
