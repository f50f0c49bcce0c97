import json
import os

import torch


def record(folder, count=900, channels=6, length=128, seed=0):
    """Writes the windows of a wrist sensor and a table of who wore it and what they did."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(length) / 20
    what = torch.randint(0, 8, (count,), generator=g)
    phase = 6.283 * torch.rand(count, channels, 1, generator=g)
    windows = torch.sin((what[:, None, None] + 1) * t + phase) + 0.3 * torch.randn(count, channels, length, generator=g)
    torch.save(windows, os.path.join(folder, "windows.pt"))
    table = [
        {"window": i, "wearer": f"p{i % 30:02d}", "begin": round(6.4 * i, 1), "activity": int(what[i])}
        for i in range(count)
    ]
    with open(os.path.join(folder, "table.json"), "w") as file:
        json.dump(table, file)


class Windows(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.folder = folder
        self.windows = torch.load(os.path.join(folder, "windows.pt"))

    def __len__(self):
        return len(self.windows)

    def entry(self, index):
        with open(os.path.join(self.folder, "table.json")) as file:
            return json.load(file)[index]  #: LINE

    def __getitem__(self, index):
        x = self.windows[index]
        x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)
        return x, self.entry(index)["activity"]
