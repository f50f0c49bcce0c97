import statistics
import tempfile
import time

import lightning as L
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy

from share import Shares
from soils import loader


class Pace(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, trainer, module, *rest):
        self.ends.append(time.perf_counter())


def main(steps=60, batch=72):
    L.seed_everything(0, verbose=False)
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=2, max_steps=steps, logger=False, default_root_dir=folder,
            strategy=DDPStrategy(process_group_backend="gloo", gradient_as_bucket_view=True), callbacks=[pace],
            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        )
        model = Shares()
        trainer.fit(model, loader(batch))
    if trainer.global_rank == 0:
        times = [1e3 * (end - begin) for begin, end in zip(pace.ends, pace.ends[1:])]
        print(f"loss {trainer.callback_metrics['loss'].item():.6f} after {trainer.global_step} steps")
        print(f"{statistics.median(times[2:]):.2f} ms/step median, {statistics.mean(times[2:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
