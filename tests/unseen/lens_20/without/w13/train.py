import statistics
import tempfile
import time

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint

from rain import Rain, loader


class Pace(L.Callback):
    def __init__(self):
        self.times, self.before = [], None

    def on_train_batch_end(self, trainer, module, *rest):
        now = time.perf_counter()
        if self.before is not None:
            self.times.append(1e3 * (now - self.before))
        self.before = now


def main(steps=60, batch=24):
    L.seed_everything(0, verbose=False)
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        keep = ModelCheckpoint(folder, filename="rain-{step}", every_n_epochs=1)
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_steps=steps, logger=False, default_root_dir=folder,
            callbacks=[pace, keep], enable_progress_bar=False, enable_model_summary=False,
        )
        model = Rain()
        trainer.fit(model, loader(batch))
    print(f"loss {model.last.item():.6f} after {trainer.global_step} steps")
    print(f"{statistics.median(pace.times[3:]):.2f} ms/step median, {statistics.mean(pace.times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
