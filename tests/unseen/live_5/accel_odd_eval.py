"""Accelerate: gradient accumulation, a dataset that does not divide evenly, evaluation with gather_for_metrics."""
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spirals(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        t = torch.rand(n, generator=g) * 6 + 0.5
        self.y = torch.randint(0, 3, (n,), generator=g)
        angle = t + 2.1 * self.y
        self.x = torch.stack([t * angle.cos(), t * angle.sin()], 1) / 6 + 0.02 * torch.randn(n, 2, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 3))

    def forward(self, x):
        return self.net(x)


def bootstrap(pred, truth, seconds):
    """Confidence interval of the accuracy, by plain resampling."""
    g = torch.Generator().manual_seed(0)
    begin, values = time.time(), []
    while time.time() - begin < seconds:
        pick = torch.randint(0, len(pred), (len(pred),), generator=g)
        values.append((pred[pick] == truth[pick]).float().mean().item())
    values.sort()
    return values[len(values) // 20], values[-1 - len(values) // 20]


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    torch.manual_seed(0)
    model = Net()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    train = DataLoader(Spirals(3017, 1), batch_size=8, shuffle=True)
    test = DataLoader(Spirals(811, 2), batch_size=16)
    model, opt, train, test = accelerator.prepare(model, opt, train, test)
    for epoch in range(5):
        model.train()
        for x, y in train:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
        model.eval()
        preds, truths = [], []
        with torch.no_grad():
            for x, y in test:
                p, t = accelerator.gather_for_metrics((model(x).argmax(1), y))
                preds.append(p), truths.append(t)
        pred, truth = torch.cat(preds), torch.cat(truths)
        if accelerator.is_main_process:
            low, high = bootstrap(pred, truth, 9)
            print(f"epoch {epoch} n {len(pred)} accuracy {(pred == truth).float().mean():.3f} [{low:.3f}, {high:.3f}]", flush=True)
        accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
