from argparse import ArgumentParser

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def build_sensors(groups=3, rounds=14, batch=4):
    """Blocks of `batch` readings, one block per sensor group in turn."""
    g = torch.Generator().manual_seed(21)
    xs, ys = [], []
    for block in range(groups * rounds):
        x = torch.randn(batch, 6, generator=g)
        scale = 3.0 if block % groups != groups - 1 else 0.05
        xs.append(x * min(scale, 1.0))
        ys.append(scale * torch.sin(x.sum(1, keepdim=True)))
    return TensorDataset(torch.cat(xs), torch.cat(ys))


class Plateau:
    def __init__(self, target, need):
        self.target, self.need, self.hits = target, need, 0

    def reached(self, value):
        self.hits = self.hits + 1 if value < self.target else 0
        return self.hits >= self.need


def train(accelerator, args):
    model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
    opt = optim.SGD(model.parameters(), lr=args.lr)
    loader = DataLoader(build_sensors(), batch_size=4)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    plateau = Plateau(args.target, args.need)

    done = 0
    for x, y in loader:
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        opt.step()
        done += 1
        if plateau.reached(loss.item()):
            break
    return model, done, loss.detach()


def main():
    parser = ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--target", type=float, default=0.2)
    parser.add_argument("--need", type=int, default=5)
    args = parser.parse_args()

    set_seed(0)
    accelerator = Accelerator(cpu=True)
    model, done, loss = train(accelerator, args)
    mean = accelerator.reduce(loss, reduction="mean")
    accelerator.print(f"stopped after {done} steps, loss {mean.item():.4f}")
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
