"""Credit scoring with lightning."""
import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from pace import Pace
from table import CATEGORIES, NUMBERS, Loans, make_table


class Scorer(L.LightningModule):
    def __init__(self, width=1024):
        super().__init__()
        self.embed = nn.ModuleList(nn.Embedding(40, 16) for _ in CATEGORIES)
        self.net = nn.Sequential(nn.Linear(len(NUMBERS) + 16 * len(CATEGORIES), width), nn.ReLU(),
                                 nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1),
                                 nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))

    def training_step(self, batch, _):
        numbers, categories, label = batch
        parts = [e(categories[:, k]) for k, e in enumerate(self.embed)]
        return F.cross_entropy(self.net(torch.cat([numbers, *parts], 1)), label)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


class Watch(L.Callback):
    def __init__(self):
        self.pace = Pace()

    def on_train_batch_end(self, *_):
        self.pace.tick()


def main():
    L.seed_everything(4)
    watch = Watch()
    loader = DataLoader(Loans(make_table()), batch_size=128, shuffle=True, drop_last=True)  #: LINE
    trainer = L.Trainer(accelerator="cpu", devices=1, max_steps=64, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, callbacks=[watch])
    trainer.fit(Scorer(), loader)
    watch.pace.report()


if __name__ == "__main__":
    main()
