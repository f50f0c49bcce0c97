"""An autoencoder of measurements. Gradients are shown while we look for the cause of the bad start."""
import torch
import torch.nn.functional as F
from torch import nn

from pace import Pace

STEPS = 60
BATCH = 640


def stack(sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.SiLU()]
    return nn.Sequential(*layers[:-2])


def main():
    torch.manual_seed(8)
    model = nn.Sequential(stack([512, 512, 384, 256, 64]), stack([64, 256, 384, 512, 512]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    basis = torch.randn(32, 512)
    pace = Pace()
    for step in range(STEPS):
        x = torch.randn(BATCH, 32) @ basis
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for name, p in model.named_parameters():
            if name.endswith("weight"):
                print(step, name, p.grad)  #: LINE
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        pace.tick()
    print(f"final loss {loss.item():.4f}")
    pace.report()


if __name__ == "__main__":
    main()
