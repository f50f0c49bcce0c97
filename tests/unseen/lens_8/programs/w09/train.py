"""Part-of-speech tagging with Lightning."""
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pace import Pace

STEPS = 62
BATCH, LENGTH, TAGS, WORDS = 48, 64, 17, 2000

warnings.filterwarnings("ignore")


class Paced(L.Callback):
    def __init__(self):
        self.pace = Pace()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.pace.tick()


class Tagger(L.LightningModule):
    def __init__(self, width=96):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, TAGS)
        self.correct = self.total = 0

    def training_step(self, batch, batch_idx):
        words, tags = batch
        states, _ = self.lstm(self.embed(words))
        logits = self.out(states)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten())
        self.score(logits.argmax(-1).flatten(), tags.flatten())
        return loss

    def score(self, predicted, tags):
        for i in range(len(tags)):
            if predicted[i] == tags[i]:  #: LINE
                self.correct += 1
        self.total += len(tags)

    def on_train_epoch_end(self):
        if self.trainer.is_global_zero:
            print(f"accuracy {self.correct / self.total:.4f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def main():
    L.seed_everything(2, verbose=False)
    words = torch.randint(0, WORDS, (STEPS * BATCH, LENGTH))
    loader = DataLoader(TensorDataset(words, words % TAGS), batch_size=BATCH, shuffle=True)
    paced = Paced()
    trainer = L.Trainer(
        accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[paced])
    trainer.fit(Tagger(), loader)
    paced.pace.report()


if __name__ == "__main__":
    main()
