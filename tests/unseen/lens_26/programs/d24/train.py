import os
import statistics
import tempfile
import time

import lightning as L
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy

from codebook import Hums, listen


class Stopwatch(L.Callback):
    def __init__(self):
        self.times = []

    def on_train_batch_start(self, trainer, module, *rest):
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer, module, *rest):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60):
    L.seed_everything(2, verbose=False)
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 2))
    watch, model = Stopwatch(), Hums()
    strategy = DDPStrategy(process_group_backend="gloo", gradient_as_bucket_view=True, broadcast_buffers=False)
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=world, strategy=strategy, max_steps=steps, max_epochs=-1, callbacks=[watch],
            logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            use_distributed_sampler=False, default_root_dir=folder,
        )
        trainer.fit(model, listen(rank, world))
    if trainer.is_global_zero:
        times = watch.times[3:]
        print(f"loss {model.last.item():.6f} after {trainer.global_step} steps")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
