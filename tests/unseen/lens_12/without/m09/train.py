import logging
import statistics
import time
import warnings

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

from unet import CellUNet

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def cells(count, side=48):
    g = torch.Generator().manual_seed(count)
    centre = torch.rand(count, 2, 1, 1, generator=g) * side
    yy, xx = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    mask = (((xx - centre[:, 0]) ** 2 + (yy - centre[:, 1]) ** 2) < 90).float().unsqueeze(1)
    return TensorDataset(mask + 0.3 * torch.randn(mask.shape, generator=g), mask)


class Times(L.Callback):
    ends = []

    def on_train_batch_end(self, trainer, *rest):
        self.ends.append(time.perf_counter())


torch.manual_seed(0)
train = DataLoader(cells(192), batch_size=8, shuffle=True)
held_out = DataLoader(cells(56), batch_size=14)
trainer = L.Trainer(accelerator="cpu", devices=1, max_steps=62, logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
                    val_check_interval=24, callbacks=[Times()])
trainer.fit(CellUNet(), train, held_out)
gaps = [1e3 * (b - a) for a, b in zip(Times.ends, Times.ends[1:])][3:]
print(f"{statistics.median(gaps):.2f} ms/step median, {statistics.mean(gaps):.2f} ms/step")
