"""Which paragraphs of the code does a judgement cite?  (multi-label)"""
import os
import shutil
import tempfile
import warnings

import lightning as L
import torch
from torch import nn

from peek import Peek, StepTimer

warnings.filterwarnings("ignore")
PARAGRAPHS = 110


class Court(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(5000, 512)
        self.net = nn.Sequential(nn.Linear(512, 2500), nn.ReLU(), nn.Dropout(0.1), nn.Linear(2500, 2500), nn.ReLU(), nn.Linear(2500, PARAGRAPHS))

    def training_step(self, batch, i):
        words, cited = batch
        logits = self.net(self.bag(words))
        loss = nn.functional.binary_cross_entropy_with_logits(logits, cited)
        return {"loss": loss, "probs": logits.detach().sigmoid()}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


class Docket(L.LightningDataModule):
    def train_dataloader(self):
        g = torch.Generator().manual_seed(5)
        words = torch.randint(0, 5000, (2000, 120), generator=g)
        cited = (torch.rand(2000, PARAGRAPHS, generator=g) < 0.05).float()
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(words, cited), batch_size=32, shuffle=True)


def main():
    L.seed_everything(1, verbose=False)
    folder = tempfile.mkdtemp(prefix="verdicts-")
    timer = StepTimer()
    try:
        trainer = L.Trainer(accelerator="cpu", devices=1, max_steps=62, logger=False, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False,
                            callbacks=[Peek(os.path.join(folder, "probs.txt")), timer])
        trainer.fit(Court(), datamodule=Docket())
    finally:
        shutil.rmtree(folder)
    print(timer.report(), flush=True)


main()
