import ctypes
import tempfile

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def decode(raw, width):
    """Calls the C routine on the raw buffer, as the vendor's library does."""
    buf = ctypes.create_string_buffer(width)
    ctypes.memmove(buf, raw, width)
    return torch.frombuffer(bytearray(buf.raw), dtype=torch.uint8)


class Clouds(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        raw = torch.randint(0, 255, (768,), generator=g, dtype=torch.uint8).numpy().tobytes()
        header = 768 if i != 1905 else 2**31
        img = decode(raw, header)  #: LINE
        return img.float().view(3, 16, 16) / 255, i % 3


class CloudNet(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 24, 3), nn.ReLU(), nn.Conv2d(24, 24, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(96, 3))

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    L.seed_everything(0, verbose=False)
    loader = DataLoader(Clouds(4800), batch_size=8, num_workers=2, shuffle=False)
    trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=4, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, default_root_dir=tempfile.mkdtemp())
    trainer.fit(CloudNet(), loader)


if __name__ == "__main__":
    main()
