import statistics
import tempfile
import time

import lightning as L

from sharpen import Sharpen


class Pace(L.Callback):
    def __init__(self):
        self.times = []

    def on_train_batch_start(self, trainer, module, *rest):
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer, module, *rest):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60):
    L.seed_everything(3, verbose=False)
    pace, model = Pace(), Sharpen()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_steps=steps, max_epochs=-1, logger=False, callbacks=[pace], default_root_dir=folder,
            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        )
        trainer.fit(model)
    print(f"loss {model.last.item():.5f} after {trainer.global_step} steps")
    print(f"{statistics.median(pace.times[3:]):.2f} ms/step median, {statistics.mean(pace.times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
