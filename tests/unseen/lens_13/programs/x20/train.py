import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from checkpoint import save

SAVE_EVERY = 4


class Translator(nn.Module):
    def __init__(self, words=2500, width=288):
        super().__init__()
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, a, b):
        _, h = self.encoder(self.source(a))
        return self.out(self.decoder(self.target(b), h)[0])


def main(steps=64, batch=6):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Translator())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    a, b = torch.randint(2500, (200, 20), generator=g), torch.randint(2500, (200, 17), generator=g)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for step in range(steps):
            begin = time.perf_counter()
            i = torch.randint(len(a), (batch,), generator=g)
            out = model(a[i], b[i, :-1])
            loss = nn.functional.cross_entropy(out.flatten(0, 1), b[i, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % SAVE_EVERY == SAVE_EVERY - 1:
                save(folder, step, model, opt)
            times.append(1e3 * (time.perf_counter() - begin))
    if rank == 0:
        times = times[3:]
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
