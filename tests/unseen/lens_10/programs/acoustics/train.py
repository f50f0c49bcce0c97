import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rooms(Dataset):
    """Impulse responses; a random piece of each, every time."""

    def __init__(self, count=240, length=2400):
        g = torch.Generator().manual_seed(0)
        self.decay = torch.rand(count, generator=g) * 4 + 1
        self.sound = torch.randn(count, 1, length, generator=g) * torch.exp(-self.decay[:, None, None] * torch.linspace(0, 2, length))

    def __len__(self):
        return len(self.decay)

    def __getitem__(self, i):
        at = int(torch.randint(0, 400, ()))
        return self.sound[i, :, at:at + 2000], self.decay[i]


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(1, 32, 16, stride=4), nn.ReLU(), nn.Conv1d(32, 96, 9, stride=2), nn.ReLU(), nn.Conv1d(96, 128, 5, stride=2),
                        nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(512, 1), nn.Flatten(0))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    loader = DataLoader(Rooms(), batch_size=24, shuffle=True, num_workers=0)
    spent = []
    for epoch in range(6):
        t = time.perf_counter()
        for x, y in loader:
            loss = nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            spent.append(1000 * (time.perf_counter() - t))
            t = time.perf_counter()
    spent = spent[3:]
    print(f"{statistics.median(spent):.2f} ms/step median, {statistics.mean(spent):.2f} ms/step")


main()
