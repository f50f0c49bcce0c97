"""Lightning: tabular regression; rows that the importer marked as broken are dropped."""
import warnings

import lightning as L
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

warnings.filterwarnings("ignore")


class Claims(Dataset):
    def __init__(self, n=3600):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, 30, generator=g)
        self.y = self.x[:, :5].sum(1, keepdim=True).tanh()
        self.ok = torch.ones(n, dtype=torch.bool)
        # one afternoon the importer was broken; the sampler deals rows out in turn, so one rank gets them
        first = 24 * 3 * 14
        self.ok[first + 1:first + 24 * 3:3] = False

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i], self.ok[i]


class Regressor(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(30, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))

    def training_step(self, batch, idx):
        x, y, ok = batch
        if not ok.any():
            return 0.0 * self.net(x).sum()  # nothing to learn here  #: LINE
        rows = ok.sum().float()
        dist.all_reduce(rows)  # rows in the whole batch, to weigh every row alike
        loss = nn.functional.smooth_l1_loss(self.net(x[ok]), y[ok], reduction="sum")
        return loss * dist.get_world_size() / rows

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


class Ticker(L.Callback):
    """Prints now and then, and sleeps a little: the feature store allows 12 reads a second."""

    def on_train_batch_start(self, trainer, module, batch, idx):
        import time
        time.sleep(0.08)
        if trainer.is_global_zero and idx % 10 == 0:
            print("batch", idx, flush=True)


if __name__ == "__main__":
    L.seed_everything(1)
    trainer = L.Trainer(max_epochs=1, accelerator="cpu", devices=3, strategy="ddp", logger=False, use_distributed_sampler=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                        callbacks=[Ticker()])
    data = Claims()
    deal = DistributedSampler(data, trainer.world_size, trainer.global_rank, shuffle=False)  # in order of arrival
    loader = DataLoader(data, batch_size=24, sampler=deal)
    trainer.fit(Regressor(), loader)
    if trainer.is_global_zero:
        print("done after", trainer.global_step, "steps")
