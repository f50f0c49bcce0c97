import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader


class Pass(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU())
        self.change = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU())

    def forward(self, h, source, target):
        m = self.message(torch.cat([h[source], h[target]], 1))
        got = torch.zeros_like(h).index_add_(0, target, m)
        return h + self.change(torch.cat([h, got], 1))


class GraphNet(L.LightningModule):
    def __init__(self, features=16, width=72, passes=3):
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.passes = nn.ModuleList(Pass(width) for _ in range(passes))
        self.out = nn.Linear(width, 1)

    def training_step(self, batch, index):
        h = self.enter(batch["x"])
        for layer in self.passes:
            h = layer(h, batch["source"], batch["target"])
        pooled = torch.zeros(batch["graphs"], h.shape[1]).index_add_(0, batch["owner"], h)
        loss = F.mse_loss(self.out(pooled).squeeze(1), batch["y"])
        self.log("loss", loss, batch_size=batch["graphs"])
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def graphs(count=1600, nodes=22, edges=64, features=16):
    g = torch.Generator().manual_seed(0)
    made = []
    for _ in range(count):
        x = torch.randn(nodes, features, generator=g)
        ends = torch.randint(0, nodes, (2, edges), generator=g)
        made.append((x, ends, (x[ends[0], 0] * x[ends[1], 1]).sum() / 8))
    return made


def merge(rows):
    sizes = torch.tensor([len(x) for x, _, _ in rows])
    shift = torch.cumsum(sizes, 0) - sizes
    ends = torch.cat([e + s for (_, e, _), s in zip(rows, shift.tolist())], 1)
    return {
        "x": torch.cat([x for x, _, _ in rows]), "source": ends[0], "target": ends[1], "graphs": len(rows),
        "owner": torch.repeat_interleave(torch.arange(len(rows)), sizes), "y": torch.stack([y for _, _, y in rows]),
    }


def loader(batch_size=64):
    return DataLoader(graphs(), batch_size, shuffle=True, drop_last=True, collate_fn=merge)
