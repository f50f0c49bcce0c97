import statistics
import tempfile
import time

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F

from tiles import loader


class Clock(L.Callback):
    def __init__(self):
        self.marks = []

    def on_train_batch_end(self, *rest):
        self.marks.append(time.perf_counter())

    def steps(self):
        return [1e3 * (end - begin) for begin, end in zip(self.marks, self.marks[1:])][2:]


class Wetness(L.LightningModule):
    def __init__(self, width=40):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(4, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(2 * width * 64, 1),
        )

    def training_step(self, batch, index):
        tiles, wet = batch
        self.last = F.mse_loss(self.net(tiles).squeeze(1), wet)
        return self.last

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-2, momentum=0.9, fused=True)


def main(steps=60, batch=24):
    L.seed_everything(0, verbose=False)
    clock, model = Clock(), Wetness()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(accelerator="cpu", devices=1, max_steps=steps, logger=False, default_root_dir=folder,
                            callbacks=[clock], enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False)
        trainer.fit(model, loader(folder, batch))
    print(f"loss {model.last.item():.6f} after {trainer.global_step} steps")
    times = clock.steps()
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")


if __name__ == "__main__":
    main()
