import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed

from looms import Loom
from usage import Usage


class Cloths(Dataset):
    """Tensions of the warp while a cloth is woven, and whether a thread broke."""

    def __init__(self, count=3000, moments=40, threads=24):
        self.broke = torch.randint(0, 2, (count,))
        self.tension = torch.randn(count, moments, threads)
        self.tension[:, 20:, :6] += 0.7 * self.broke[:, None, None]

    def __len__(self):
        return len(self.broke)

    def __getitem__(self, index):
        return {"tension": self.tension[index], "labels": self.broke[index]}


def main(steps=60):
    set_seed(4)
    usage = Usage()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=24, learning_rate=1e-3, optim="adamw_torch_fused", use_cpu=True,
            ddp_backend="gloo" if "RANK" in os.environ else None, ddp_find_unused_parameters=False, save_strategy="no", logging_strategy="no", report_to=[],
            disable_tqdm=True, dataloader_pin_memory=False,
        )
        trainer = Trainer(Loom(), args, train_dataset=Cloths(), callbacks=[usage])
        result = trainer.train()
    times = [1e3 * row["seconds"] for row in usage.rows][3:]
    if trainer.is_world_process_zero():
        print(f"loss {result.training_loss:.6f}, at most {usage.most():.0f} MiB in {trainer.state.global_step} steps")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
