"""Lightning: a callback reports outlier batches to the log."""
import os
import time
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

warnings.filterwarnings("ignore")


class Meter(Dataset):
    """Electricity meters; the second half of the table has one broken meter."""

    def __len__(self):
        return 1600

    def __getitem__(self, i):
        time.sleep(0.004)
        g = torch.Generator().manual_seed(i)
        x = torch.randn(24, generator=g)
        y = x.mean().reshape(1)
        return x, y + (900.0 if i == 333 else 0.0)


class OutlierReport(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        loss = outputs["loss"]
        if loss > 1000:
            mean = trainer.strategy.reduce(loss.detach(), reduce_op="mean")  #: LINE
            print(f"outlier in batch {batch_idx}: {loss:.1f}, mean of all {mean:.1f}", flush=True)


class Forecast(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.mse_loss(self.net(x), y)

    def on_train_batch_start(self, batch, batch_idx):
        if batch_idx % 10 == 0 and self.global_rank == 0:
            print(f"batch {batch_idx}", flush=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def main():
    L.seed_everything(3, verbose=False)
    data = Meter()
    part = DistributedSampler(data, num_replicas=2, rank=int(os.environ["RANK"]), shuffle=False)
    loader = DataLoader(data, batch_size=16, sampler=part)
    trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False,
                        use_distributed_sampler=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                        callbacks=[OutlierReport()])
    trainer.fit(Forecast(), loader)


if __name__ == "__main__":
    main()
