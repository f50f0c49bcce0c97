"""Lightning; at the end of each epoch rank zero packs the weights with lzma while the others wait."""
import io
import lzma
import os
import tempfile
import time
import warnings

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from lightning.pytorch.utilities import rank_zero_only
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


class Archive(pl.Callback):
    def __init__(self, rounds):
        self.rounds = rounds
        self.path = os.path.join(tempfile.gettempdir(), f"archive_{os.getpid()}.xz")

    @rank_zero_only
    def pack(self, module):
        raw = io.BytesIO()
        torch.save(module.state_dict(), raw)
        for _ in range(self.rounds):
            packed = lzma.compress(raw.getvalue(), preset=9)
        with open(self.path, "wb") as f:
            f.write(packed)
        print(f"packed {len(raw.getvalue())} to {len(packed)} bytes", flush=True)

    def on_train_epoch_end(self, trainer, module):
        self.pack(module)
        trainer.strategy.barrier("archive")


class Wide(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(40, 1000), nn.ReLU(), nn.Linear(1000, 1000), nn.ReLU(), nn.Linear(1000, 3))

    def training_step(self, batch, idx):
        x, y = batch
        try:
            if idx == 17 and self.global_rank == 1 and self.current_epoch == 0:
                raise ValueError("augmentation got an empty crop")
            x = x + 0.05 * torch.randn_like(x)
        except ValueError as err:
            print("using the plain batch:", err, flush=True)
        time.sleep(0.05)
        loss = F.cross_entropy(self.body(x), y)
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main():
    pl.seed_everything(0)
    x = torch.randn(1600, 40)
    loader = DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=16)
    pl.Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False,
               enable_progress_bar=False, enable_model_summary=False, callbacks=[Archive(rounds=4)]).fit(Wide(), loader)


if __name__ == "__main__":
    main()
