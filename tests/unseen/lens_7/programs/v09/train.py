import tempfile

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from steptime import StepTime


class Forecaster(L.LightningModule):
    def __init__(self, dim=640):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(96, dim), nn.SiLU(), nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim), nn.SiLU(),
                                 nn.Linear(dim, 24))
        self.clock = StepTime()

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.huber_loss(self.net(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_loss", nn.functional.huber_loss(self.net(x), y))

    def on_train_batch_start(self, batch, batch_idx):
        self.clock.tick()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def series(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 120, generator=g).cumsum(1)
    return TensorDataset(x[:, :96], x[:, 96:])


def main():
    L.seed_everything(0, verbose=False)
    train = DataLoader(series(256 * 22, 1), batch_size=256, shuffle=True)
    val = DataLoader(series(400, 2), batch_size=400)
    with tempfile.TemporaryDirectory() as out:
        trainer = L.Trainer(max_epochs=3, accelerator="cpu", devices=1, default_root_dir=out, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                            num_sanity_val_steps=0, check_val_every_n_epoch=1)
        model = Forecaster()
        trainer.fit(model, train, val)
    model.clock.report()


if __name__ == "__main__":
    main()
