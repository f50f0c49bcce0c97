import statistics
import tempfile
import time

import torch
from torch import nn

from monitor import Monitor


class Patches(nn.Module):
    def __init__(self, width=112, depth=4, classes=10):
        super().__init__()
        self.cut = nn.Conv2d(3, width, 4, 4)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        return self.out(self.norm(self.blocks(self.cut(x).flatten(2).transpose(1, 2)).mean(1)))


def main(steps=62, batch=12):
    torch.manual_seed(0)
    images, labels = torch.randn(300, 3, 28, 28), torch.randint(10, (300,))
    model = Patches()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 10))
    times = []
    with tempfile.TemporaryDirectory() as folder:
        monitor = Monitor(folder, every=1)
        for step in range(steps):
            begin = time.perf_counter()
            i = torch.randint(len(images), (batch,))
            loss = nn.functional.cross_entropy(model(images[i]), labels[i])
            opt.zero_grad()
            loss.backward()
            opt.step()
            warm.step()
            monitor.write(step, model, loss, warm.get_last_lr()[0])
            times.append(1e3 * (time.perf_counter() - begin))
        monitor.close()
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
