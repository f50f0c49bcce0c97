import os
import tempfile

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Verse(pl.LightningModule):
    def __init__(self, vocab=128, dim=48):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def training_step(self, batch, i):
        (ids,) = batch
        logits = self.out(self.rnn(self.emb(ids[:, :-1]))[0])
        return nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 2e-3)


class Snapshots(Callback):
    def __init__(self, folder, every=110):
        self.folder, self.every = folder, every

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        step = trainer.global_step
        if step % self.every:
            return
        print(f"rank {trainer.global_rank} step {step} loss {outputs['loss'].item():.3f}", flush=True)
        if trainer.is_global_zero:
            trainer.save_checkpoint(os.path.join(self.folder, f"verse-{step}.ckpt"))  #: LINE


if __name__ == "__main__":
    pl.seed_everything(9, verbose=False)
    text = torch.randint(0, 128, (6000, 33), generator=torch.Generator().manual_seed(0))
    folder = tempfile.mkdtemp()
    trainer = pl.Trainer(accelerator="cpu", devices=3, strategy="ddp", max_epochs=3, callbacks=[Snapshots(folder)], logger=False,
                         enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder)
    trainer.fit(Verse(), DataLoader(TensorDataset(text), batch_size=8))
