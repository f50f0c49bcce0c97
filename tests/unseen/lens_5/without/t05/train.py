"""World model of a small game: predicts the next frame. Frames go into an album that a thread puts on the share for later replays."""

import statistics
import time

import torch
from torch import nn

from album import Album

SIDE = 24


class NextFrame(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(2, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
        self.draw = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, pair):
        return self.draw(self.look(pair))


def play(step, count=96):
    rng = torch.Generator().manual_seed(step)
    first = (torch.rand(count, 1, SIDE, SIDE, generator=rng) > 0.8).float()
    frames = torch.stack([first.roll(k, 3) for k in range(3)], 1)
    return frames.squeeze(2)


def main():
    torch.manual_seed(7)
    model = NextFrame()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    album = Album(pages=64, shape=(32, 3, SIDE, SIDE))
    times = []
    for step in range(80):
        t0 = time.perf_counter()
        album.pack()
        frames = play(step)
        album.add(frames[:32])
        guess = model(frames[:, :2])
        loss = nn.functional.mse_loss(guess, frames[:, 2:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - t0))
    album.close()
    print(f"{album.packed} packages, the last of {album.size} bytes")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
