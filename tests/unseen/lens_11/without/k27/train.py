"""Session-based recommendations with lightning."""
import tempfile

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pace import Pace

ITEMS = 8000


class Sessions(L.LightningModule):
    def __init__(self, width=128):
        super().__init__()
        self.items = nn.Embedding(ITEMS, width)
        self.rnn = nn.GRU(width, 384, batch_first=True)
        self.out = nn.Linear(384, width)

    def training_step(self, batch, index):
        clicks, following = batch
        h, _ = self.rnn(self.items(clicks))
        loss = F.cross_entropy(self.out(h[:, -1]) @ self.items.weight.T, following)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Watch(L.Callback):
    def __init__(self):
        self.pace = Pace()

    def on_train_batch_start(self, *_):
        self.pace.tick()


def main():
    L.seed_everything(1)
    data = TensorDataset(torch.randint(0, ITEMS, (3200, 20)), torch.randint(0, ITEMS, (3200,)))
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        keep = ModelCheckpoint(folder, every_n_train_steps=64, save_top_k=1, save_last=True)
        trainer = L.Trainer(accelerator="cpu", devices=1, max_steps=64, callbacks=[watch, keep], logger=False,
                            enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(Sessions(), DataLoader(data, batch_size=50, shuffle=True))
    watch.pace.report()


if __name__ == "__main__":
    main()
