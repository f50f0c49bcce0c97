import statistics
import tempfile
import time

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset


class Ear(nn.Module):
    """A frozen network for sounds; all its layers are asked for."""

    def __init__(self, widths=(1, 24, 48, 64)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(a, b, 9, 2, 4) for a, b in zip(widths, widths[1:]))
        self.requires_grad_(False)

    def forward(self, sound):
        heard = []
        for layer in self.layers:
            sound = F.leaky_relu(layer(sound), 0.1)
            heard.append(sound)
        return heard


class Restore(L.LightningModule):
    """Takes the crackle out of old records."""

    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 9, padding=4), nn.ReLU(), nn.Conv1d(width, width, 9, padding=4), nn.ReLU(), nn.Conv1d(width, 1, 9, padding=4),
        )
        self.ear = Ear()
        self.times = []

    def training_step(self, batch, index):
        old, clean = batch
        guess = old + self.net(old)
        with torch.no_grad():
            wanted = self.ear(clean)
        loss = F.l1_loss(guess, clean)
        for mine, theirs in zip(self.ear(guess), wanted):
            loss = loss + 0.3 * F.l1_loss(mine, theirs)
        self.last = loss.detach()
        return loss

    def on_train_batch_start(self, batch, index):
        self.began = time.perf_counter()

    def on_train_batch_end(self, outputs, batch, index):
        self.times.append(1e3 * (time.perf_counter() - self.began))

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)


def records(count=600, length=1024):
    clean = torch.sin(torch.arange(length) * torch.rand(count, 1, 1) / 4)
    crackle = 2 * (torch.rand(count, 1, length) < 0.02)
    return TensorDataset(clean + crackle, clean)


class Whole:
    """Gives a batch for a list of places."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, picked):
        return self.data[picked]


def main(steps=60, batch=16):
    L.seed_everything(8, verbose=False)
    data = Whole(records())
    loader = DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), batch, drop_last=True))
    model = Restore()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_steps=steps, max_epochs=-1, logger=False, default_root_dir=folder,
            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        )
        trainer.fit(model, loader)
    print(f"loss {model.last.item():.5f} after {trainer.global_step} steps")
    print(f"{statistics.median(model.times[3:]):.2f} ms/step median, {statistics.mean(model.times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
