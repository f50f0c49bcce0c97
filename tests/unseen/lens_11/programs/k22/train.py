"""Findings on chest X-rays (several may be present), with accelerate."""
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pace import Pace
from scores import mean_auc

FINDINGS, STEPS = 14, 60


def backbone():
    def unit(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU(), nn.AvgPool2d(2))
    return nn.Sequential(unit(1, 16), unit(16, 32), unit(32, 64), nn.Flatten(), nn.Linear(64 * 36, FINDINGS))


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    pictures = torch.randn(1280, 1, 48, 48)
    present = (torch.rand(1280, FINDINGS) < 0.3).float()
    loader = DataLoader(TensorDataset(pictures, present), batch_size=64, shuffle=True, drop_last=True)
    model = backbone()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    criterion = nn.BCEWithLogitsLoss()
    pace, step, aucs = Pace(), 0, []
    for epoch in range(3):
        model.train()
        for x, y in loader:
            logits = model(x)
            loss = criterion(logits, y)
            accelerator.backward(loss)
            opt.step()
            opt.zero_grad()
            aucs.append(mean_auc(y, logits))  #: LINE
            step += 1
            pace.tick()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f} AUC {sum(aucs) / len(aucs):.4f}")
        aucs.clear()
    pace.report()
    accelerator.end_training()


if __name__ == "__main__":
    main()
