"""A denoiser with Lightning; loss and signal-to-noise ratio of each step are kept."""
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pace import Pace

STEPS = 62
BATCH = 32

warnings.filterwarnings("ignore")


class Paced(L.Callback):
    def __init__(self):
        self.pace = Pace()
        self.history = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.history.append(outputs["loss"].item())
        self.pace.tick()


class Denoiser(L.LightningModule):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 9, padding=4), nn.ReLU(), nn.Conv1d(width, width, 9, padding=4), nn.ReLU(),
            nn.Conv1d(width, width, 9, padding=4), nn.ReLU(), nn.Conv1d(width, 1, 9, padding=4))

    def training_step(self, batch, batch_idx):
        clean, = batch
        noisy = clean + 0.3 * torch.randn_like(clean)
        loss = F.mse_loss(self.net(noisy), clean)
        snr = 10 * torch.log10(clean.square().mean() / loss.detach())
        self.log("loss", loss, on_step=True)
        self.log("snr", snr.item(), on_step=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    L.seed_everything(1, verbose=False)
    phase = 6.28 * torch.rand(STEPS * BATCH, 1, 1)
    waves = torch.sin(torch.arange(256) * 0.1 + phase)
    paced = Paced()
    trainer = L.Trainer(
        accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False, log_every_n_steps=1,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[paced])
    trainer.fit(Denoiser(), DataLoader(TensorDataset(waves), batch_size=BATCH, shuffle=True))
    print(f"last loss {paced.history[-1]:.4f}")
    paced.pace.report()


if __name__ == "__main__":
    main()
