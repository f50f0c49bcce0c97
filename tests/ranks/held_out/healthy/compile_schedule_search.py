#: n=4 ok exit=0
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

search_seconds = random.Random(time.time_ns()).uniform(10, 45)


def fusion_cost(order):
    return sum(abs(a - b) * (1 + i % 3) for i, (a, b) in enumerate(zip(order, order[1:])))


def searching_backend(gm, example_inputs):
    """random search over the node order, then run the graph as it is"""
    nodes = list(range(len(list(gm.graph.nodes))))
    long_search = dist.get_rank() == 1 and compiled_shapes["count"] >= 1
    compiled_shapes["count"] += 1
    end = time.time() + (search_seconds if long_search else 0.2)
    best, rng = fusion_cost(nodes), random.Random(0)
    while time.time() < end:
        rng.shuffle(nodes)
        best = min(best, fusion_cost(nodes))
    return gm.forward


compiled_shapes = {"count": 0}


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(10, 20), nn.Linear(20, 5)


def features(x, wa, ba, wb, bb):
    h = torch.tanh(x @ wa.t() + ba)
    return h @ wb.t() + bb


features_compiled = torch.compile(features, backend=searching_backend, dynamic=False)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(36)
    model = Tagger()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(40):
        time.sleep(0.15)
        batch = 8 if step < 22 else 12
        x, y = torch.randn(batch, 10), torch.randint(0, 5, (batch,))
        logits = features_compiled(x, model.a.weight, model.a.bias, model.b.weight, model.b.bias)
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        opt.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
