"""A recurrent classifier of events with Lightning, eight short epochs."""
import os
import tempfile
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from data import Events, write_index
from pace import Pace

EPOCHS = 8
STEPS_PER_EPOCH = 8
BATCH = 64

warnings.filterwarnings("ignore")


class Paced(L.Callback):
    def __init__(self):
        self.pace = Pace()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.pace.tick()


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.mix = nn.Sequential(nn.Linear(64, 320), nn.GELU(), nn.Linear(320, 192))
        self.gru = nn.GRU(192, 96, batch_first=True)
        self.head = nn.Linear(96, 7)

    def training_step(self, batch, batch_idx):
        events, labels = batch
        states, _ = self.gru(self.mix(events))
        return F.cross_entropy(self.head(states[:, -1]), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    L.seed_everything(3, verbose=False)
    paced = Paced()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "index.jsonl")
        write_index(path, rows=8000)
        data = Events(path, STEPS_PER_EPOCH * BATCH)
        loader = DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=1)  #: LINE
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_epochs=EPOCHS, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, callbacks=[paced])
        trainer.fit(Classifier(), loader)
    paced.pace.report()


if __name__ == "__main__":
    main()
