import statistics
import tempfile
import time

import lightning as L
import torch.distributed as dist
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import DDPStrategy

from coins import CoinModel, Histograms


class Clock(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, trainer, module, *rest):
        self.ends.append(time.perf_counter())


def main(steps=60):
    L.seed_everything(0, verbose=False)
    clock, model = Clock(), CoinModel()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=2, max_steps=steps, max_epochs=-1, logger=TensorBoardLogger(folder),
            log_every_n_steps=50, strategy=DDPStrategy(process_group_backend="gloo", gradient_as_bucket_view=True),
            callbacks=[clock, Histograms()], enable_progress_bar=False, enable_model_summary=False,
            enable_checkpointing=False, use_distributed_sampler=False, default_root_dir=folder,
        )
        trainer.fit(model)
    if trainer.global_rank == 0:
        times = [1e3 * (end - begin) for begin, end in zip(clock.ends, clock.ends[1:])][2:]
        print(f"loss {model.last.item():.6f} after {trainer.global_step} steps")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
