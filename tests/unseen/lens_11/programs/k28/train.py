"""Leaf diseases from a small set of pictures: many short epochs with lightning."""
import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

from pace import Pace


class Leaves(Dataset):
    def __init__(self, count=144):
        rng = np.random.default_rng(0)
        self.pictures = rng.integers(0, 255, (count, 3, 56, 56), dtype=np.uint8)
        self.disease = rng.integers(0, 6, count)

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        picture = self.pictures[i]
        if np.random.random() < 0.5:
            picture = picture[:, :, ::-1]
        shift = np.random.randint(-4, 5, 2)
        picture = np.roll(picture, tuple(shift), (1, 2)).astype(np.float32) / 255
        return torch.from_numpy(picture), int(self.disease[i])


class LeafNet(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1),
                                 nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 64, 3), nn.ReLU(),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 6))

    def training_step(self, batch, index):
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


class Ticker(L.Callback):
    def __init__(self):
        self.pace = Pace()

    def on_train_batch_end(self, *args):
        self.pace.tick()


if __name__ == "__main__":
    L.seed_everything(2)
    ticker = Ticker()
    loader = DataLoader(Leaves(), batch_size=24, shuffle=True, num_workers=2)  #: LINE
    trainer = L.Trainer(accelerator="cpu", devices=1, max_steps=60, max_epochs=-1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, callbacks=[ticker])
    trainer.fit(LeafNet(), loader)
    ticker.pace.report()
