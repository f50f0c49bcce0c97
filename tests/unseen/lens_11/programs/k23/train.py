"""Metric learning of shoe prints: triplets against a bank of embeddings."""
import torch
import torch.nn.functional as F
from torch import nn

from pace import Pace

STEPS, BATCH = 64, 96


class PrintNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 32, 5, stride=2), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(),
                                  nn.Conv2d(64, 64, 3), nn.ReLU())
        self.embed = nn.Linear(64 * 64, 128)

    def forward(self, x):
        return F.normalize(self.embed(self.conv(x).flatten(1)), dim=1)


@torch.no_grad()
def recall_at(found, labels, bank, bank_labels, k=10):
    scores = found @ bank.T
    nearest = scores.topk(k, dim=1).indices
    return (bank_labels[nearest] == labels[:, None]).any(1).float().mean()


def main():
    torch.manual_seed(3)
    bank = F.normalize(torch.randn(12000, 128), dim=1)
    bank_labels = torch.randint(0, 300, (12000,))
    net = PrintNet()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    pace = Pace()
    for step in range(1, STEPS + 1):
        prints, labels = torch.randn(BATCH, 1, 48, 48), torch.randint(0, 300, (BATCH,))
        near, far = torch.randint(0, 12000, (2, BATCH))
        found = net(prints)
        loss = F.relu(0.2 - (found * bank[near]).sum(1) + (found * bank[far]).sum(1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        recall = recall_at(found, labels, bank, bank_labels)  #: LINE
        if step % 32 == 0:
            print(f"step {step} loss {loss.item():.4f} recall@10 {recall.item():.3f}")
        pace.tick()
    pace.report()


if __name__ == "__main__":
    main()
