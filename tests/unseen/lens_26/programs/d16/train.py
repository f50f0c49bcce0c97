import statistics
import tempfile
import time

import lightning as L
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy

from hearts import Heart


class Times(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, *rest):
        self.ends.append(time.perf_counter())


def main(steps=60):
    L.seed_everything(0, verbose=False)
    times, heart = Times(), Heart()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu",
            devices=2,
            strategy=DDPStrategy(process_group_backend="gloo", gradient_as_bucket_view=True),
            max_steps=steps,
            max_epochs=-1,
            detect_anomaly=True,  #: LINE
            callbacks=[times],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            use_distributed_sampler=False,
            default_root_dir=folder,
        )
        trainer.fit(heart)
    if trainer.global_rank == 0:
        took = [1e3 * (b - a) for a, b in zip(times.ends, times.ends[1:])][2:]
        print(f"loss {heart.latest.item():.5f} after {trainer.global_step} steps")
        print(f"{statistics.median(took):.2f} ms/step median, {statistics.mean(took):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
