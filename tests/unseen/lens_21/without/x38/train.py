import statistics
import tempfile
import time

import lightning as L
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy

from gaits import loader
from pose import Pose


class Clock(L.Callback):
    def __init__(self):
        self.marks = []

    def on_train_batch_end(self, trainer, module, *rest):
        self.marks.append(time.perf_counter())


def main(steps=60, batch=40):
    L.seed_everything(0, verbose=False)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=2, max_steps=steps, logger=False, default_root_dir=folder,
            strategy=DDPStrategy(process_group_backend="gloo"), callbacks=[clock], enable_progress_bar=False,
            enable_model_summary=False, enable_checkpointing=False,
        )
        model = Pose()
        trainer.fit(model, loader(batch))
    if trainer.global_rank == 0:
        times = [1e3 * (end - begin) for begin, end in zip(clock.marks, clock.marks[1:])]
        print(f"loss {model.last.item():.6f} after {trainer.global_step} steps")
        print(f"{statistics.median(times[2:]):.2f} ms/step median, {statistics.mean(times[2:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
