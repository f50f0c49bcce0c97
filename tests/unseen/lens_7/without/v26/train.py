import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from steptime import StepTime

EPOCHS = 11


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(8, 64, 5, padding=2), nn.GELU(), nn.Conv1d(64, 64, 5, padding=2), nn.GELU(), nn.AvgPool1d(2),
            nn.Conv1d(64, 128, 5, padding=2), nn.GELU(), nn.AdaptiveAvgPool1d(1))
        self.head = nn.Linear(128, 5)

    def forward(self, x):
        return self.head(self.conv(x).flatten(1))


def windows(n=6 * 32):
    g = torch.Generator().manual_seed(3)
    return TensorDataset(torch.randn(n, 8, 256, generator=g), torch.randint(0, 5, (n,), generator=g))


def main():
    torch.manual_seed(0)
    model = Net()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(windows(), batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
    clock = StepTime()
    for epoch in range(EPOCHS):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            clock.tick()
        if epoch % 5 == 0:
            print(f"epoch {epoch} loss {total / 6:.4f}")
    clock.report()


if __name__ == "__main__":
    main()
