import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    """Recordings; a few of them were cut off and end in NaN."""

    broken = {21, 37}

    def __init__(self, n=64, length=20):
        g = torch.Generator().manual_seed(9)
        self.x = torch.randn(n, length, generator=g)
        self.y = (self.x[:, :5].mean(1) > 0).float()
        for i in self.broken:
            self.x[i, -3:] = float("nan")

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class SignalModel(L.LightningModule):
    def __init__(self, lr=0.05):
        super().__init__()
        self.automatic_optimization = False
        self.lr = lr
        self.net = nn.Sequential(nn.Linear(20, 12), nn.ReLU(), nn.Linear(12, 1))
        self.skipped = 0

    def forward(self, x):
        return self.net(x).squeeze(-1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        opt = self.optimizers()
        bad = torch.isnan(x).any(dim=1)
        if bad.any():
            self.skipped += 1
            x = torch.nan_to_num(x)
        weight = (~bad).float()
        loss = F.binary_cross_entropy_with_logits(self(x), y, weight=weight)
        opt.zero_grad()
        self.manual_backward(loss)
        opt.step()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)

    def on_train_epoch_end(self):
        w = self.net[0].weight.norm().item()
        self.print(f"epoch {self.current_epoch}: |w| {w:.3f}, touched {self.skipped}")


def run():
    L.seed_everything(4, verbose=False)
    loader = DataLoader(Signals(), batch_size=4, shuffle=False)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend="gloo"),
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(SignalModel(), loader)


if __name__ == "__main__":
    run()
