import os

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

import flightrec  # noqa: F401


def get_data(n=1920):
    g = torch.Generator().manual_seed(21)
    x = torch.randn(n, 10, generator=g)
    w = torch.randn(10, 1, generator=g)
    return TensorDataset(x, x @ w + 0.1 * torch.randn(n, 1, generator=g))


def save_checkpoint(accelerator, model, folder, epoch):
    accelerator.wait_for_everyone()
    state = accelerator.unwrap_model(model).state_dict()
    path = os.path.join(folder, f"epoch_{epoch}")
    os.makedirs(path, exist_ok=True)
    accelerator.save(state, os.path.join(path, "model.pt"))
    accelerator.print(f"saved {path}")


def evaluate(accelerator, model, loader):
    model.eval()
    errors = []
    for x, y in loader:
        with torch.no_grad():
            err = (model(x) - y).abs().squeeze(1)
        errors.append(accelerator.gather_for_metrics(err))
    model.train()
    return torch.cat(errors).mean().item()


def main():
    set_seed(0)
    accelerator = Accelerator(cpu=True)
    data = get_data()
    train, val = torch.utils.data.random_split(data, [1600, 320])
    train_loader = DataLoader(train, batch_size=16, shuffle=True)
    val_loader = DataLoader(val, batch_size=32)
    model = nn.Sequential(nn.Linear(10, 64), nn.GELU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model, optimizer, train_loader, val_loader = accelerator.prepare(
        model, optimizer, train_loader, val_loader)

    best = float("inf")
    for epoch in range(10):
        for x, y in train_loader:
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        mae = evaluate(accelerator, model, val_loader)
        accelerator.print(f"epoch {epoch} mae {mae:.4f}")
        if accelerator.is_main_process and mae < best:
            best = mae
            save_checkpoint(accelerator, model, "ckpt_regress", epoch)
    accelerator.end_training()


if __name__ == "__main__":
    main()
