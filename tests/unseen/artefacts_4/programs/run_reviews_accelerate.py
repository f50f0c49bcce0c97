"""Sentiment of reviews with accelerate."""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def reviews(n, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 800, (n, 40), generator=g)
    labels = (ids[:, :5].sum(1) % 2).long()
    return TensorDataset(ids, labels)


class BagClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(800, 48)
        self.net = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 2))

    def forward(self, ids):
        return self.net(self.emb(ids))


def evaluate(accelerator, model, loader):
    model.eval()
    hits, seen = 0, 0
    for ids, labels in loader:
        with torch.no_grad():
            preds = model(ids).argmax(dim=-1)
        preds, labels = accelerator.gather_for_metrics((preds, labels))
        hits += (preds == labels).sum().item()
        seen += labels.numel()
    model.train()
    return hits / seen


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(11)
    model = BagClassifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    train_loader = DataLoader(reviews(4096, 0), batch_size=16, shuffle=True)
    eval_loader = DataLoader(reviews(512, 1), batch_size=32)
    model, optimizer, train_loader, eval_loader = accelerator.prepare(
        model, optimizer, train_loader, eval_loader)
    criterion = nn.CrossEntropyLoss()

    best = 0.0
    for epoch in range(5):
        for step, (ids, labels) in enumerate(train_loader):
            loss = criterion(model(ids), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            if step % 16 == 0:
                accelerator.print(f"epoch {epoch} step {step} loss {loss.item():.4f}")

        if accelerator.is_main_process:
            accuracy = evaluate(accelerator, model, eval_loader)
            print(f"epoch {epoch}: accuracy {accuracy:.3f}")
            if accuracy > best:
                best = accuracy
                torch.save(accelerator.unwrap_model(model).state_dict(), "best.pt")

    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
