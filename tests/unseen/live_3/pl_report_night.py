"""Lightning: after the epoch rank 0 draws a long report, the other rank waits in a barrier."""
import time
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


class Report(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        if trainer.is_global_zero and trainer.current_epoch == 0:
            for page in range(11):
                weights = torch.cat([p.detach().flatten() for p in module.parameters()])
                torch.histc(weights, bins=40 + page)
                time.sleep(2.0)
            print("report of 11 pages is ready", flush=True)
        trainer.strategy.barrier("report")


class Small(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        time.sleep(0.1)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        right = (self.net(x).argmax(1) == y).float().mean()
        self.log("right", right, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=g)
    return TensorDataset(x, x[:, :3].argmax(dim=1))


def main():
    L.seed_everything(1, verbose=False)
    trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                        callbacks=[Report()])
    trainer.fit(Small(), DataLoader(data(640, 0), batch_size=16, shuffle=True), DataLoader(data(90, 1), batch_size=16))
    if trainer.is_global_zero:
        print({k: float(v) for k, v in trainer.callback_metrics.items()}, flush=True)


if __name__ == "__main__":
    main()
