import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from snippets import Snippets, endless


class Code(nn.Module):
    def __init__(self, signs, width=128, longest=68):
        super().__init__()
        self.signs, self.places = nn.Embedding(signs, width), nn.Embedding(longest, width)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, signs)

    def forward(self, x):
        return self.out(self.layers(self.signs(x) + self.places.weight[: x.shape[1]]))


def main(steps=60, batch=24, signs=100):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = DistributedDataParallel(Code(signs), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    batches = endless(Snippets(signs, batch).of(rank, world))
    times = []
    for step in range(steps):
        began = time.perf_counter()
        text = next(batches)
        hidden = torch.rand(text.shape) < 0.2
        logits = net(text.masked_fill(hidden, 0))
        loss = F.cross_entropy(logits.flatten(0, 1), text.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
