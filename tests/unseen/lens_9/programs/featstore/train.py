import statistics
import time

import numpy as np
import torch
from torch import nn

from store import FeatureStore

SHOPS = 900


def make_model():
    return nn.Sequential(nn.Linear(64, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 1))


def train_step(model, opt, store, rng, baskets):
    shops = rng.integers(0, SHOPS, 512)
    x = torch.cat([torch.from_numpy(store.lookup(shops)), baskets[shops]], 1)
    loss = nn.functional.mse_loss(model(x).squeeze(1), x.sum(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


def main(steps=70):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    store = FeatureStore(SHOPS)
    baskets = torch.rand(SHOPS, 32)
    model = make_model()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    took, before = [], time.monotonic()
    try:
        for step in range(steps):
            train_step(model, opt, store, rng, baskets)
            after = time.monotonic()
            took.append((after - before) * 1000)
            before = after
    finally:
        store.close()
    took = took[4:]
    print(f"{statistics.median(took):.2f} ms/step median, {statistics.mean(took):.2f} ms/step")


if __name__ == "__main__":
    main()
