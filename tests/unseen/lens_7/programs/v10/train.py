import math

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from steptime import StepTime

STEPS = 62


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(100, 800), nn.ReLU(), nn.Linear(800, 800), nn.ReLU(), nn.Linear(800, 800), nn.ReLU(),
                          nn.Linear(800, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(16000, 100)
    loader = DataLoader(TensorDataset(x, x[:, :1] * 2 + 1), batch_size=192, shuffle=True)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    clock = StepTime()
    step = skipped = 0
    while step < STEPS:
        for features, target in loader:
            loss = nn.functional.mse_loss(model(features), target)
            accelerator.backward(loss)
            norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            if math.isfinite(norm) and not torch.isnan(loss):
                opt.step()
            else:
                skipped += 1
            opt.zero_grad()
            clock.tick()
            step += 1
            if step == STEPS:
                break
    accelerator.print(f"loss {loss.item():.4f}, skipped {skipped}")
    if accelerator.is_main_process:
        clock.report()
    accelerator.end_training()


if __name__ == "__main__":
    main()
