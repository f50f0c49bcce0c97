import math
import statistics
import tempfile
import time

import torch
from torch.nn import functional as F

from board import Board
from denoise import Denoiser, codes


def main(steps=60, batch=640):
    torch.manual_seed(0)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    g = torch.Generator().manual_seed(8)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        board = Board(folder, model)
        for step in range(steps):
            began = time.perf_counter()
            x = codes(batch, g)
            t = torch.rand(batch, generator=g)
            noise = torch.randn(x.shape, generator=g)
            a, b = torch.cos(t * math.pi / 2)[:, None], torch.sin(t * math.pi / 2)[:, None]
            loss = F.mse_loss(model(a * x + b * noise, t), noise)
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            board.write(step, loss=loss.item(), norm=norm.item())
            times.append(1e3 * (time.perf_counter() - began))
        board.close()
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
