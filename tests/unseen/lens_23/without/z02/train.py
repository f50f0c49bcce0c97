import statistics
import tempfile
import time

import lightning as L

from bikes import Rides


class Laps(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, trainer, module, *rest):
        self.ends.append(time.perf_counter())


def main(steps=60):
    L.seed_everything(3, verbose=False)
    laps, model = Laps(), Rides()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_steps=steps, max_epochs=-1, callbacks=[laps], logger=False,
            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder,
        )
        trainer.fit(model)
    times = [1e3 * (end - begin) for begin, end in zip(laps.ends, laps.ends[1:])][2:]
    print(f"loss {model.last.item():.6f} after {trainer.global_step} steps")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")


if __name__ == "__main__":
    main()
