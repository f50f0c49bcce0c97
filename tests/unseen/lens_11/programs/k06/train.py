"""Star ratings of reviews: hashed n-grams into a deep network, with accelerate."""
import tempfile

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader

from pace import Pace
from reviews import BUCKETS, Reviews, write_reviews

STEPS = 60


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(2)
    with tempfile.TemporaryDirectory() as folder:
        write_reviews(folder, 1280)
        loader = DataLoader(Reviews(folder), batch_size=64, shuffle=True, drop_last=True,
                            num_workers=1, prefetch_factor=4, persistent_workers=True)
        model = nn.Sequential(nn.Linear(BUCKETS, 960), nn.ReLU(), nn.Linear(960, 960), nn.ReLU(), nn.Linear(960, 5))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        loss_fn = nn.CrossEntropyLoss()
        pace, step = Pace(), 0
        while step < STEPS:
            for bags, stars in loader:  #: LINE
                loss = loss_fn(model(bags), stars)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                pace.tick()
        accelerator.print(f"last loss {loss.item():.4f}")
        pace.report()
    accelerator.end_training()


if __name__ == "__main__":
    main()
