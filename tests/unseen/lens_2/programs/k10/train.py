import time
import torch
from torch import nn
from card import Slot, card, locked

STEPS, N, D = 32, 64, 40


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(D, D) for _ in range(4))
        self.time = nn.Embedding(10, D)

    def forward(self, x, t):
        h = self.time(t)
        for layer in self.layers:
            card.kernel(0.004)
            h = h + torch.nn.functional.silu(layer(x + h))
        return h


def record(step):
    """The next recording, as it comes from the disk."""
    g = torch.Generator().manual_seed(step)
    return torch.randn(N, D, generator=g)


def neighbours():
    """Asks the index for the next ids; takes its time and needs no card."""
    time.sleep(0.038)


def main():
    torch.manual_seed(0)
    net = Denoiser()
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    place = torch.zeros(N, D).as_subclass(Slot)
    staging = [locked(N, D) for _ in range(2)]
    tic = time.perf_counter()
    for step in range(STEPS):
        fresh = record(step)
        staging[step % 2].copy_(fresh)
        place.copy_(staging[step % 2])
        neighbours()
        clean = place.as_subclass(torch.Tensor)
        t = torch.randint(0, 10, (N,))
        noise = torch.randn(N, D)
        loss = (net(clean + noise * (t / 10)[:, None], t) - noise).square().mean()
        opt.zero_grad()
        card.kernel(0.02)
        loss.backward()
        opt.step()
        if step == STEPS - 1:
            card.finish()
    print(f"denoiser: loss {loss.item():.3f}, {(time.perf_counter() - tic) / STEPS * 1e3:.2f} ms/step")


main()
