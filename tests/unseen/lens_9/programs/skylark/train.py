"""Larks on the radar: a small ResNet, Lightning."""
import tempfile
import time
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.loggers import CSVLogger
from torch import nn

warnings.filterwarnings("ignore")


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c))

    def forward(self, x):
        return F.relu(x + self.f(x))


class Lark(L.LightningModule):
    def __init__(self, c=24):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(2, c, 3, 2, 1), Res(c), Res(c), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 4))

    def training_step(self, batch, i):
        x, y = batch
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        self.log_dict({"loss": loss, "accuracy": (logits.argmax(1) == y).float().mean(), "confidence": logits.softmax(1).amax(1).mean()})
        self.log("lr", self.optimizers().param_groups[0]["lr"])
        return loss

    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(opt, 62), "interval": "step"}}


class Clock(L.Callback):
    stamps = []

    def on_train_batch_end(self, trainer, *args):
        self.stamps.append(time.perf_counter())


def main():
    L.seed_everything(0, verbose=False)
    x = torch.rand(1024, 2, 40, 40)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, torch.randint(0, 4, (1024,))), batch_size=48, shuffle=True)
    with tempfile.TemporaryDirectory() as root:
        trainer = L.Trainer(max_steps=62, max_epochs=-1, accelerator="cpu", devices=1, logger=CSVLogger(root), log_every_n_steps=20, callbacks=[Clock()],
                            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
        trainer.fit(Lark(), loader)
    ms = (torch.tensor(Clock.stamps, dtype=torch.float64).diff() * 1e3)[3:]
    print(f"{ms.quantile(0.5).item():.2f} ms/step median, {ms.mean().item():.2f} ms/step", flush=True)


if __name__ == "__main__":
    main()
