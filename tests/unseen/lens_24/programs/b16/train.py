import statistics
import tempfile
import time

import lightning as L
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy

from footprint import Footprint
from wool import Breeds


class Ends(L.Callback):
    def __init__(self):
        self.at = []

    def on_train_batch_end(self, *rest):
        self.at.append(time.perf_counter())


def main(steps=60):
    L.seed_everything(0, verbose=False)
    ends, footprint, model = Ends(), Footprint(), Breeds()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend="gloo", gradient_as_bucket_view=True),
            max_steps=steps, max_epochs=-1, callbacks=[footprint, ends], logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False, default_root_dir=folder,
        )
        trainer.fit(model)
    if trainer.is_global_zero:
        times = [1e3 * (b - a) for a, b in zip(ends.at, ends.at[1:])][2:]
        print(f"loss {model.last.item():.6f} after {trainer.global_step} steps, peak {footprint.peak >> 20} MiB")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
