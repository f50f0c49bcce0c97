"""Which bird sings?  Three processes, the gradients averaged by hand and clipped."""
import time
from statistics import mean, median

import torch
import torch.distributed as dist
from torch import nn

from flat import FlatSync


class Singer(nn.Module):
    def __init__(self, mels=40, hidden=72, birds=30):
        super().__init__()
        self.rnn = nn.GRU(mels, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.LayerNorm(2 * hidden), nn.Linear(2 * hidden, birds))

    def forward(self, x):
        return self.head(self.rnn(x)[0].mean(1))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = Singer()
    sync = FlatSync(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    songs, birds = torch.randn(120, 50, 40), torch.randint(0, 30, (120,))
    t = []
    for _ in range(62):
        i = torch.randint(0, 120, (16,))
        sync.zero()
        nn.functional.cross_entropy(model(songs[i]), birds[i]).backward()
        norm = sync.average()
        if norm > 1:
            sync.flat *= 1 / norm
        opt.step()
        t.append(time.perf_counter())
    if rank == 0:
        ms = [1e3 * (b - a) for a, b in zip(t, t[1:])][3:]
        print(f"{median(ms):.2f} ms/step median, {mean(ms):.2f} ms/step", flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
