"""Autoencoder for vibration records of a gearbox."""
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn

from feeder import Feeder
from pace import Pace

STEPS = 64


def network():
    return nn.Sequential(
        nn.Conv1d(3, 48, 9, stride=2, padding=4), nn.GELU(), nn.Conv1d(48, 96, 9, stride=2, padding=4), nn.GELU(),
        nn.Conv1d(96, 96, 9, padding=4), nn.GELU(),
        nn.ConvTranspose1d(96, 48, 8, stride=2, padding=3), nn.GELU(), nn.ConvTranspose1d(48, 3, 8, stride=2, padding=3))


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "gearbox.npy")
    np.save(path, np.random.default_rng(0).standard_normal((600, 3, 512)).astype(np.float32))
    torch.manual_seed(1)
    net = network()
    adam = torch.optim.Adam(net.parameters(), 1e-3)
    feeder = Feeder(path, 24, STEPS)
    pace = Pace()
    for step in range(STEPS):
        x = feeder.next()
        loss = (net(x) - x).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        pace.tick()
    print(f"reconstruction error {loss.item():.3f}")
    pace.report()
