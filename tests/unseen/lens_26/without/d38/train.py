import os
import statistics
import tempfile
import time

import lightning as L
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy

from crops import Crops, fields


class Clock(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, trainer, module, *rest):
        self.ends.append(time.perf_counter())


def main(steps=60):
    L.seed_everything(1, verbose=False)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 2))
    clock, model = Clock(), Crops()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=world, strategy=DDPStrategy(process_group_backend="gloo", gradient_as_bucket_view=True),
            max_steps=steps, max_epochs=-1, callbacks=[clock], logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False, default_root_dir=folder,
        )
        trainer.fit(model, fields(rank, world))
    if trainer.is_global_zero:
        times = [1e3 * (end - begin) for begin, end in zip(clock.ends, clock.ends[1:])]
        print(f"loss {model.last.item():.6f} after {trainer.global_step} steps")
        print(f"{statistics.median(times[2:]):.2f} ms/step median, {statistics.mean(times[2:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
