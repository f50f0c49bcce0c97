import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from ranks import mean_gradients


class Prices(nn.Module):
    """Price of a flat by the flats around it."""

    def __init__(self, traits=24, width=160):
        super().__init__()
        self.enter = nn.Linear(traits, width)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.layers(self.enter(x))[:, 0]).squeeze(1)


def main(steps=60, batch=24, around=24):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Prices()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    flats = torch.randn(1500, around, 24, generator=torch.Generator().manual_seed(rank))
    price = flats[:, 0, :3].sum(1) + flats[:, 1:, 3].mean(1)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 1500, (batch,))
        guess = model(flats[picked])
        loss = F.huber_loss(guess, price[picked])
        optimizer.zero_grad()
        loss.backward()
        numbers = torch.stack([loss.detach(), (guess.detach() - price[picked]).abs().mean()])
        numbers = mean_gradients(model, numbers)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {numbers[0]:.5f} off by {numbers[1]:.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
