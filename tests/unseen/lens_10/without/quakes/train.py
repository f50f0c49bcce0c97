import logging
import statistics
import time
import warnings

import lightning as L
import torch
from torch import nn

from guard import Guard

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Magnitude(L.LightningModule):
    def __init__(self, samples=1500, width=1280):
        super().__init__()
        self.ends = []
        self.model = nn.Sequential(nn.Linear(3 * samples, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))

    def training_step(self, batch, batch_idx):
        wave, magnitude = batch
        return nn.functional.smooth_l1_loss(self.model(wave.flatten(1)).squeeze(1), magnitude)

    def on_train_batch_end(self, *args):
        self.ends.append(time.perf_counter())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3, momentum=0.9)


def records(count, samples=1500):
    size = torch.rand(count) * 4 + 2
    wave = torch.randn(count, 3, samples) * (size[:, None, None] / 6) * torch.exp(-torch.linspace(0, 3, samples))
    return torch.utils.data.TensorDataset(wave, size)


L.seed_everything(3, verbose=False)
module = Magnitude()
trainer = L.Trainer(max_steps=65, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(module, torch.utils.data.DataLoader(records(768), batch_size=64, shuffle=True))
ms = [(b - a) * 1000 for a, b in zip(module.ends, module.ends[1:])][3:]
print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")
