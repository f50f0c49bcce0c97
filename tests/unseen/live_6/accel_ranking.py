import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Ranker(nn.Module):
    def __init__(self, users=500, items=900, dim=24):
        super().__init__()
        self.u, self.i = nn.Embedding(users, dim), nn.Embedding(items, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, user, item):
        return self.mlp(torch.cat([self.u(user), self.i(item)], -1)).squeeze(-1)


def clicks(n, seed):
    g = torch.Generator().manual_seed(seed)
    user = torch.randint(0, 500, (n,), generator=g)
    item = torch.randint(0, 900, (n,), generator=g)
    return TensorDataset(user, item, ((user + item) % 3 == 0).float())


def auc(score, label):
    order = score.argsort()
    rank = torch.empty_like(score)
    rank[order] = torch.arange(1, len(score) + 1, dtype=score.dtype)
    pos = label.sum()
    neg = len(label) - pos
    return ((rank[label == 1].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(13)
    model = Ranker()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    train = DataLoader(clicks(6400, 1), batch_size=32, shuffle=True)
    valid = DataLoader(clicks(1280, 2), batch_size=64)
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
    loss_fn = nn.BCEWithLogitsLoss()

    for epoch in range(8):
        model.train()
        for user, item, label in train:
            with accelerator.accumulate(model):
                loss = loss_fn(model(user, item), label)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        scores, labels = [], []
        for user, item, label in valid:
            with torch.no_grad():
                scores.append(model(user, item))
            labels.append(label)
        if accelerator.is_main_process:
            s = accelerator.gather_for_metrics(torch.cat(scores))  #: LINE
            l = accelerator.gather_for_metrics(torch.cat(labels))
            print(f"epoch {epoch}: loss {loss.item():.4f} auc {auc(s, l):.4f}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
