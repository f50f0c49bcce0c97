import tempfile

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from steptime import StepTime

STEPS = 62


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1),
                                 nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 10))
        self.clock = StepTime()

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        logits = self.net(x)
        self.log("val_loss", nn.functional.cross_entropy(logits, y))
        self.log("val_acc", (logits.argmax(1) == y).float().mean())

    def on_train_batch_start(self, batch, batch_idx):
        self.clock.tick()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def images(n, seed):
    g = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(n, 1, 28, 28, generator=g), torch.randint(0, 10, (n,), generator=g))


def main():
    L.seed_everything(0, verbose=False)
    train = DataLoader(images(64 * STEPS, 1), batch_size=64, shuffle=True)
    val = DataLoader(images(64 * 5, 2), batch_size=64)
    with tempfile.TemporaryDirectory() as out:
        trainer = L.Trainer(max_epochs=1, accelerator="cpu", devices=1, default_root_dir=out, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                            num_sanity_val_steps=0)
        model = Classifier()
        trainer.fit(model, train, val)
    model.clock.report()


if __name__ == "__main__":
    main()
