import statistics
import tempfile
import time

import lightning as L

from orchard import Orchard


class Times(L.Callback):
    def __init__(self):
        self.times = []

    def on_train_batch_start(self, trainer, module, *rest):
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer, module, *rest):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60):
    L.seed_everything(0, verbose=False)
    times, model = Times(), Orchard()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_steps=steps, max_epochs=-1, logger=False, callbacks=[times],
            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder,
        )
        trainer.fit(model)
    if trainer.global_rank == 0:
        print(f"loss {model.last.item():.6f} after {trainer.global_step} steps")
        print(f"{statistics.median(times.times[3:]):.2f} ms/step median, {statistics.mean(times.times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
