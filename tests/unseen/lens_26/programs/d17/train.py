import os
import statistics
import tempfile
import time
import warnings

import lightning as L
import torch.distributed as dist

from mushrooms import Namer, loader, photograph


class Stopwatch(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, *rest):
        self.ends.append(time.perf_counter())


def main(steps=60):
    warnings.filterwarnings("ignore", ".*does not have many workers.*")
    L.seed_everything(0, verbose=False)
    watch, namer = Stopwatch(), Namer()
    with tempfile.TemporaryDirectory() as folder:
        photos = os.path.join(folder, "photos")
        os.mkdir(photos)
        photograph(photos)
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_steps=steps, max_epochs=-1, logger=False, callbacks=[watch],
            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder,
        )
        trainer.fit(namer, loader(photos))
    took = [1e3 * (b - a) for a, b in zip(watch.ends, watch.ends[1:])][2:]
    print(f"loss {namer.latest.item():.5f} after {trainer.global_step} steps")
    print(f"{statistics.median(took):.2f} ms/step median, {statistics.mean(took):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
