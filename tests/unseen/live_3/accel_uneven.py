"""Accelerate: uneven last batches, metrics gathered by all, and an early end by trigger."""
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def table(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 9, generator=g)
    return TensorDataset(x, (x.sum(1) > 0).long())


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(0)
    model = nn.Sequential(nn.Linear(9, 24), nn.Tanh(), nn.Linear(24, 2))
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    train = DataLoader(table(533, 0), batch_size=16, shuffle=True)
    valid = DataLoader(table(101, 1), batch_size=16)
    model, opt, train, valid = accelerator.prepare(model, opt, train, valid)
    for epoch in range(8):
        model.train()
        for x, y in train:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                opt.step()
                opt.zero_grad()
            time.sleep(0.1)
        model.eval()
        right = count = 0
        for x, y in valid:
            with torch.no_grad():
                guess = model(x).argmax(dim=1)
            guess, y = accelerator.gather_for_metrics((guess, y))
            right += int((guess == y).sum())
            count += len(y)
        accelerator.print(f"epoch {epoch}: {right} of {count}", flush=True)
        if accelerator.is_main_process and right / count > 0.85 and epoch >= 2:
            accelerator.set_trigger()
        if accelerator.check_trigger():
            break
        if epoch == 1:
            if accelerator.is_main_process:
                time.sleep(9.0)  # upload of the first weights
            accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
