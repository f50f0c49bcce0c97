"""Accelerate training script with a held-out set that does not divide evenly."""
from datetime import timedelta

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


def get_loaders(batch):
    g = torch.Generator().manual_seed(4)
    x = torch.randn(90, 6, generator=g)
    y = (x[:, 0] * x[:, 1] > 0).long()
    train = TensorDataset(x[:64], y[:64])
    test = TensorDataset(x[64:], y[64:])
    return (
        DataLoader(train, batch_size=batch, shuffle=True, generator=torch.Generator().manual_seed(0)),
        DataLoader(test, batch_size=batch),
    )


def get_model():
    return torch.nn.Sequential(torch.nn.Linear(6, 24), torch.nn.ReLU(), torch.nn.Linear(24, 2))


def train_epoch(accelerator, model, optimizer, loader):
    model.train()
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    return loss.detach()


def evaluate(accelerator, model, loader):
    model.eval()
    right, seen = 0, 0
    for x, y in loader:
        with torch.no_grad():
            guess = model(x).argmax(dim=-1)
        guess, gold = accelerator.gather_for_metrics((guess, y))
        if accelerator.is_main_process:
            right += (guess == gold).sum().item()
            seen += gold.numel()
    return right, seen


def main():
    pg = InitProcessGroupKwargs(backend="gloo", timeout=timedelta(seconds=20))
    accelerator = Accelerator(cpu=True, kwargs_handlers=[pg])
    set_seed(8)
    train, test = get_loaders(batch=8)
    model = get_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)

    for epoch in range(3):
        loss = train_epoch(accelerator, model, optimizer, train)
        right, seen = evaluate(accelerator, model, test)
        mean = accelerator.reduce(loss, reduction="mean")
        if accelerator.is_main_process:
            accelerator.print(f"epoch {epoch}: loss {mean.item():.3f} accuracy {right}/{seen}")

    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
