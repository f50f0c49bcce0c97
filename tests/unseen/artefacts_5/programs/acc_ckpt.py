"""accelerate: autoencoder with a checkpoint now and then."""
import frdump  # noqa: F401
import os

import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def checkpoint(acc, model, step):
    acc.wait_for_everyone()
    os.makedirs("out", exist_ok=True)
    acc.save(acc.unwrap_model(model).state_dict(), f"out/step{step}.pt")
    print(f"checkpoint out/step{step}.pt", flush=True)


def main():
    acc = Accelerator(cpu=True)
    torch.manual_seed(4)
    data = TensorDataset(torch.randn(4000, 18))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(18, 6), nn.ReLU(), nn.Linear(6, 18))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    model, opt, loader = acc.prepare(model, opt, loader)
    step = 0
    for epoch in range(3):
        for (x,) in loader:
            loss = (model(x) - x).pow(2).mean()
            acc.backward(loss)
            opt.step()
            opt.zero_grad()
            step += 1
            if step % 10 == 0:
                acc.print(f"step {step} loss {loss.item():.4f}", flush=True)
            if step % 40 == 0 and acc.is_main_process:
                checkpoint(acc, model, step)
    acc.end_training()


if __name__ == "__main__":
    main()
