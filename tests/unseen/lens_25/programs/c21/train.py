import statistics
import tempfile
import time

import lightning as L
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy

from tremor import Tremor, quakes


class StepClock(L.Callback):
    """From one step of the optimizer to the next."""

    def __init__(self):
        self.marks, self.seen = [], 0

    def on_train_batch_end(self, trainer, module, *rest):
        if trainer.global_step > self.seen:
            self.seen = trainer.global_step
            self.marks.append(time.perf_counter())


def main(steps=60, accumulate=4, micro_batch=32):
    L.seed_everything(0, verbose=False)
    clock, module = StepClock(), Tremor()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=2, max_steps=steps, max_epochs=-1,
            accumulate_grad_batches=accumulate,
            strategy=DDPStrategy(process_group_backend="gloo", gradient_as_bucket_view=True),
            callbacks=[clock], logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, use_distributed_sampler=False, default_root_dir=folder,
        )
        trainer.strategy.setup_environment()
        loader = quakes(trainer.global_rank, trainer.world_size, micro_batch)
        trainer.fit(module, loader)
    if trainer.global_rank == 0:
        times = [1e3 * (b - a) for a, b in zip(clock.marks, clock.marks[1:])][2:]
        print(f"last loss {module.last.item():.6f} after {trainer.global_step} steps")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
