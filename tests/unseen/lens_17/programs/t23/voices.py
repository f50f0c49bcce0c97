import lightning as L
import torch
from torch import nn
from torch.nn import functional as F


class Voices(torch.utils.data.IterableDataset):
    """Short utterances as 40 bands by 60 frames, of 30 speakers."""

    def __init__(self, batch=56, speakers=30, seed=0):
        self.batch, self.speakers, self.seed = batch, speakers, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        timbre = torch.randn(self.speakers, 40, 1, generator=g)
        while True:
            who = torch.randint(0, self.speakers, (self.batch,), generator=g)
            yield timbre[who] + torch.randn(self.batch, 40, 60, generator=g), who


class SpeakerId(L.LightningModule):
    """The lower layers are finished and stay as they are."""

    def __init__(self, width=112, speakers=30):
        super().__init__()
        self.lower = nn.Sequential(
            nn.Conv1d(40, width, 5, padding=2), nn.ReLU(), nn.Conv1d(width, width, 5, padding=2), nn.ReLU()
        ).requires_grad_(False)
        self.upper = nn.Sequential(
            nn.Conv1d(width, width, 3, padding=1), nn.ReLU(), nn.Conv1d(width, width, 3, padding=2, dilation=2), nn.ReLU()
        )
        self.out = nn.Linear(2 * width, speakers)

    def forward(self, x):
        with torch.no_grad():
            h = self.lower(x)
        h = self.upper(h)
        pooled = torch.cat([h.mean(2), h.std(2)], 1)
        return {"logits": self.out(pooled), "pooled": pooled, "frames": h.amax(1)}

    def training_step(self, batch, index):
        x, who = batch
        result = self(x)
        loss = F.cross_entropy(result["logits"], who)
        return {"loss": loss, "right": (result["logits"].argmax(1) == who).float().mean()}

    def configure_optimizers(self):
        return torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], lr=1e-3)
