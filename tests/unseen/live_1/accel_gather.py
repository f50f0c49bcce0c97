"""Accelerate script: fine-tunes a small ranker."""
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def dataset(n=480, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    return TensorDataset(x, x[:, :3].sum(1, keepdim=True))


def spearman(a, b):
    ra, rb = a.flatten().argsort().argsort().float(), b.flatten().argsort().argsort().float()
    ra, rb = ra - ra.mean(), rb - rb.mean()
    return (ra @ rb / (ra.norm() * rb.norm())).item()


def main():
    acc = Accelerator(cpu=True)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 1))
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    train = DataLoader(dataset(), batch_size=8, shuffle=True)
    model, opt, train = acc.prepare(model, opt, train)
    for epoch in range(3):
        preds, golds = [], []
        for step, (x, y) in enumerate(train):
            p = model(x)
            loss = nn.functional.mse_loss(p, y)
            acc.backward(loss)
            opt.step()
            opt.zero_grad()
            preds.append(p.detach())
            golds.append(y)
        acc.print(f"epoch {epoch} last loss {loss.item():.4f}")
        if acc.is_main_process:
            all_p = acc.gather(torch.cat(preds))  #: LINE
            all_y = acc.gather(torch.cat(golds))
            print("rank correlation", spearman(all_p, all_y), flush=True)
    acc.wait_for_everyone()
    acc.end_training()


if __name__ == "__main__":
    main()
