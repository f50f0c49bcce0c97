"""Accelerate: training with a validation pass; the best weights are kept by the main process."""
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    return TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())


class Keeper:
    def __init__(self, accelerator):
        self.accelerator = accelerator
        self.best = None

    def predictions(self, logits, y):
        return self.accelerator.gather_for_metrics((logits.argmax(dim=1), y))

    def offer(self, model, loader):
        right = count = 0
        with torch.no_grad():
            for x, y in loader:
                guess, y = self.predictions(model(x), y)
                right += int((guess == y).sum())
                count += len(y)
        score = right / count
        if self.best is None or score > self.best:
            self.best = score
        return score


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(7)
    train = DataLoader(make_data(960, 0), batch_size=16, shuffle=True)
    valid = DataLoader(make_data(192, 1), batch_size=16)
    model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 2))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model, opt, train, valid = accelerator.prepare(model, opt, train, valid)
    keeper = Keeper(accelerator)
    done = 0
    for epoch in range(6):
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            opt.step()
            opt.zero_grad()
            done += 1
            time.sleep(0.1)
            if done % 15 == 0 and accelerator.is_main_process:
                score = keeper.offer(model, valid)  #: LINE
                print(f"step {done} score {score:.3f} best {keeper.best:.3f}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
