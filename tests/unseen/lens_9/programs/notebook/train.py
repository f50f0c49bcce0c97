"""A denoiser for scanned notebooks."""
import logging
import time

import torch
from torch import nn

from sender import Sender

logger = logging.getLogger(__name__)
logging.basicConfig(level=logging.WARNING)


class Summary:
    """Made into a string only if somebody wants to read it."""

    def __init__(self, model):
        self.model = model

    def __str__(self):
        return "\n".join(f"{n}: {p.grad.norm():.3e} {p.grad.flatten()[:16]}" for n, p in self.model.named_parameters())


def unet_ish():
    return nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 48, 3, 2, 1), nn.ReLU(), nn.Conv2d(48, 48, 3, padding=1), nn.ReLU(),
                         nn.ConvTranspose2d(48, 24, 4, 2, 1), nn.ReLU(), nn.Conv2d(24, 1, 3, padding=1))


def main():
    torch.manual_seed(0)
    model, sender, stamps = unet_ish(), Sender(), []
    optim = torch.optim.Adam(model.parameters(), 1e-3)
    try:
        for step in range(62):
            page = (torch.rand(10, 1, 64, 64) > 0.9).float()
            loss = (model(page + 0.2 * torch.randn_like(page)) - page).pow(2).mean()
            optim.zero_grad(set_to_none=True)
            loss.backward()
            logger.debug("after step %d:\n%s", step, Summary(model))
            optim.step()
            sender.put({"step": step, "loss": loss.detach()})
            stamps.append(time.perf_counter())
    finally:
        sender.close()
    ms = (torch.tensor(stamps, dtype=torch.float64).diff() * 1e3)[3:]
    print(f"{ms.quantile(0.5).item():.2f} ms/step median, {ms.mean().item():.2f} ms/step")


if __name__ == "__main__":
    main()
