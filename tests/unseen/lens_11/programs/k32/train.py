"""Upscaling of rain maps; a probe watches the layers."""
import logging

import torch
from torch import nn

from pace import Pace
from probe import Probe

STEPS = 66


def main():
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    log = logging.getLogger("train")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.PReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.PReLU(),
                        nn.Conv2d(32, 16, 3, padding=1), nn.PixelShuffle(4))
    Probe(net)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    pace = Pace()
    for step in range(STEPS):
        fine = torch.rand(12, 1, 160, 160)
        coarse = nn.functional.avg_pool2d(fine, 4)
        loss = (net(coarse) - fine).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.debug("step %d loss %s weights %s", step, loss, net[0].weight)
        if log.isEnabledFor(logging.DEBUG):
            log.debug(f"gradients {[p.grad.norm().item() for p in net.parameters()]}")
        pace.tick()
    log.info("loss %.5f", loss.item())
    pace.report()


if __name__ == "__main__":
    main()
