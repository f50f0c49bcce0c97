"""A language model over characters; the loss of each token is tracked."""
import torch
import torch.nn.functional as F
from torch import nn

from pace import Pace
from tokens import TokenLoss

STEPS = 64
BATCH, LENGTH, VOCABULARY = 48, 160, 96


class CharModel(nn.Module):
    def __init__(self, width=80):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.convs = nn.ModuleList(nn.Conv1d(width, width, 3) for _ in range(2))
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, VOCABULARY))

    def forward(self, ids):
        x = self.embed(ids).transpose(1, 2)
        for conv in self.convs:
            x = x + F.gelu(conv(F.pad(x, (2, 0))))
        return self.head(x.transpose(1, 2))


def batches(steps):
    generator = torch.Generator().manual_seed(11)
    text = torch.randint(0, VOCABULARY, (200_000,), generator=generator)
    for _ in range(steps):
        starts = torch.randint(0, len(text) - LENGTH - 1, (BATCH,), generator=generator)
        window = starts[:, None] + torch.arange(LENGTH + 1)
        chunk = text[window]
        yield chunk[:, :-1], chunk[:, 1:]


def main():
    torch.manual_seed(0)
    model = CharModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    stats = TokenLoss(VOCABULARY)
    pace = Pace()
    for step, (ids, targets) in enumerate(batches(STEPS)):
        logits = model(ids)
        losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        loss = losses.mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        stats.update(targets, losses.detach())
        pace.tick()
    print("worst tokens", [(i, round(float(m), 2)) for m, i in stats.worst()])
    pace.report()


if __name__ == "__main__":
    main()
