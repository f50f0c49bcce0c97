import statistics
import tempfile
import time

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint

from tide import Tide, loader


class Clock(L.Callback):
    def __init__(self):
        self.marks = []

    def on_train_batch_end(self, trainer, module, *rest):
        self.marks.append(time.perf_counter())


def main(steps=60, batch=48):
    L.seed_everything(0, verbose=False)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        keep = ModelCheckpoint(folder, filename="tide-{step}", every_n_train_steps=30, save_weights_only=True)
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_steps=steps, logger=False, default_root_dir=folder,
            callbacks=[clock, keep], enable_progress_bar=False, enable_model_summary=False,
        )
        model = Tide()
        trainer.fit(model, loader(batch))
    times = [1e3 * (end - begin) for begin, end in zip(clock.marks, clock.marks[1:])]
    print(f"loss {model.last.item():.6f} after {trainer.global_step} steps")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
