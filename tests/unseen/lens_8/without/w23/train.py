"""A recommender: scores of all articles for each reader, with accelerate."""
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dashboard import Dashboard
from pace import Pace

STEPS = 64
BATCH, ARTICLES, HISTORY = 96, 8000, 30


class Recommender(nn.Module):
    def __init__(self, width=160):
        super().__init__()
        self.articles = nn.Embedding(ARTICLES, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, width))

    def forward(self, history):
        reader = self.mlp(self.articles(history).mean(1))
        return reader @ self.articles.weight.T


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(4)
    history = torch.randint(0, ARTICLES, (STEPS * BATCH, HISTORY))
    clicked = history[:, 0].roll(1)
    loader = DataLoader(TensorDataset(history, clicked), batch_size=BATCH, shuffle=True)
    model = Recommender()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    dashboard = Dashboard()
    pace = Pace()
    for batch, target in loader:
        scores = model(batch)
        loss = F.cross_entropy(scores, target)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        dashboard.push(scores.detach())
        pace.tick()
    accelerator.print("top of the first reader", dashboard.top())
    if accelerator.is_main_process:
        pace.report()
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
