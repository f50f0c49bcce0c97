import statistics
import time

import torch
from torch.nn import functional as F

from muon import Muon
from pollen import Grains, slides


def optimizers(model):
    """Muon for the matrices of the blocks, AdamW for everything else."""
    matrices = [weight for weight in model.blocks.parameters() if weight.ndim == 2]
    known = {id(weight) for weight in matrices}
    rest = [weight for weight in model.parameters() if id(weight) not in known]
    return Muon(matrices, lr=0.02), torch.optim.AdamW(rest, lr=1e-3, fused=True)


def main(steps=60, batch=16):
    torch.manual_seed(0)
    patches, plant = slides()
    model = Grains()
    both = optimizers(model)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(len(plant), (batch,))
        loss = F.cross_entropy(model(patches[picked]), plant[picked])
        model.zero_grad(set_to_none=True)
        loss.backward()
        for optimizer in both:
            optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
