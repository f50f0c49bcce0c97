import logging
import time
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Clips(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.enc = nn.GRU(8, 24, batch_first=True)
        self.dec = nn.Linear(24, 8)

    def step(self, x):
        out, _ = self.enc(x[:, :-1])
        return nn.functional.mse_loss(self.dec(out), x[:, 1:])

    def training_step(self, batch, i):
        loss = self.step(batch[0])
        self.log("train", loss)
        return loss

    def validation_step(self, batch, i):
        if self.global_rank == 1 and i == 3 and self.current_epoch == 1:
            self.long_clip()
        self.log("val", self.step(batch[0]), sync_dist=True, on_epoch=True)

    def long_clip(self):
        """a whole film, frame by frame from the tape"""
        state, t0 = None, time.time()
        while time.time() - t0 < 45:
            _, state = self.enc(torch.randn(1, 10, 8), state)
            time.sleep(0.2)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


if __name__ == "__main__":
    L.seed_everything(3, verbose=False)
    t = torch.linspace(0, 60, 40)
    x = torch.stack([torch.sin(t * (0.5 + k / 400))[:, None].repeat(1, 8) for k in range(800)])
    stop = EarlyStopping("val", min_delta=0.02, patience=1, mode="min", verbose=True)
    trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=8, logger=False, callbacks=[stop],
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    train = DataLoader(TensorDataset(x[:640]), batch_size=16, shuffle=True)
    val = DataLoader(TensorDataset(x[640:]), batch_size=16)
    trainer.fit(Clips(), train, val)
    trainer.print("ended in epoch", trainer.current_epoch)
