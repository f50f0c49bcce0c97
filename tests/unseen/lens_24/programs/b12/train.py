import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F

from blackbox import BlackBox


class Pigments(nn.Module):
    """Which pigments are in a layer of paint? From its fine spectrum."""

    def __init__(self, lines=6144, width=256, pigments=24):
        super().__init__()
        self.lower = nn.Linear(lines, width)
        self.upper = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.which = nn.Linear(width, pigments)

    def forward(self, spectra):
        return self.which(self.norm(self.upper(F.relu(self.lower(spectra)))))


class Paints:
    def __init__(self, lines=6144, pigments=24):
        self.pure = torch.randn(pigments, lines).cumsum(1) / 30
        self.pigments = pigments

    def batch(self, size):
        parts = (torch.rand(size, self.pigments) < 0.15).float()
        return parts @ self.pure, parts


def main(steps=60, size=320):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = parallelize_module(Pigments(), mesh, {"lower": ColwiseParallel(), "upper": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, foreach=False)
    paints, times = Paints(), []
    with tempfile.TemporaryDirectory() as folder:
        box = BlackBox(folder)
        for step in range(steps):
            began = time.perf_counter()
            spectra, parts = paints.batch(size)
            if dist.get_rank() == 0:  # both ranks see the same batch
                box.record(step, spectra=spectra, parts=parts)  #: LINE
            loss = F.binary_cross_entropy_with_logits(model(spectra), parts)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
