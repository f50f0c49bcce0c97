"""Human pose estimation from keypoint tracks: lightning on two processes."""
import tempfile

import lightning as L
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pace import Pace

JOINTS = ["nose", "l_eye", "r_eye", "l_ear", "r_ear", "l_shoulder", "r_shoulder", "l_elbow", "r_elbow",
          "l_wrist", "r_wrist", "l_hip", "r_hip", "l_knee", "r_knee", "l_ankle", "r_ankle"]


class Lifter(L.LightningModule):
    """2D tracks of 27 frames to the 3D pose of the middle frame."""

    def __init__(self, width=512):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(2 * len(JOINTS), width, 3, dilation=1), nn.ReLU(),
                                 nn.Conv1d(width, width, 3, dilation=3), nn.ReLU(),
                                 nn.Conv1d(width, width, 3, dilation=9), nn.ReLU(), nn.Conv1d(width, 3 * len(JOINTS), 1))

    def training_step(self, batch, index):
        tracks, pose = batch
        guess = self.net(tracks).view(-1, len(JOINTS), 3)
        errors = (guess - pose).norm(dim=-1).mean(0)
        self.log("mpjpe", errors.mean(), sync_dist=True, on_step=False, on_epoch=True)
        close = ((guess - pose).norm(dim=-1) < 1.0).float().mean(0)
        per_joint = {f"error/{name}": e.detach() for name, e in zip(JOINTS, errors)}
        per_joint.update({f"close/{name}": c for name, c in zip(JOINTS, close)})
        self.log_dict(per_joint, sync_dist=True, on_step=False, on_epoch=True)
        return errors.mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Times(L.Callback):
    def __init__(self):
        self.pace = Pace()

    def on_train_batch_end(self, *args):
        self.pace.tick()


def main():
    L.seed_everything(0)
    data = TensorDataset(torch.randn(2048, 2 * len(JOINTS), 27), torch.randn(2048, len(JOINTS), 3))
    times = Times()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_steps=60, callbacks=[times],
                            logger=CSVLogger(folder), log_every_n_steps=20, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(Lifter(), DataLoader(data, batch_size=14))
        if trainer.is_global_zero:
            times.pace.report()
        trainer.strategy.barrier()


if __name__ == "__main__":
    main()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
