import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

warnings.filterwarnings("ignore")


class Detector(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))
        self.losses = []

    def training_step(self, batch, batch_idx):
        x, box, has_box = batch
        if not has_box.any():            # nothing to learn from, Lightning skips the batch
            return None                  #: LINE
        pred = self.net(x[has_box])
        loss = nn.functional.smooth_l1_loss(pred, box[has_box])
        self.losses.append(loss.item())
        return loss

    def on_train_epoch_end(self):
        mean = torch.tensor(self.losses).mean()
        mean = self.trainer.strategy.reduce(mean)
        self.print(f"epoch {self.current_epoch}: {mean:.4f}")
        self.losses.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def data(n=2400):
    g = torch.Generator().manual_seed(2)
    x = torch.randn(n, 20, generator=g)
    has_box = torch.rand(n, generator=g) < 0.8
    has_box[1633:1648:2] = False          # a film of an empty street
    return TensorDataset(x, x[:, :4] * 2, has_box)


def main():
    L.seed_everything(1, verbose=False)
    trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=4, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                        use_distributed_sampler=False)
    ds = data()
    rank = trainer.global_rank
    sampler = DistributedSampler(ds, num_replicas=2, rank=rank, shuffle=False)
    trainer.fit(Detector(), DataLoader(ds, batch_size=8, sampler=sampler))


if __name__ == "__main__":
    main()
