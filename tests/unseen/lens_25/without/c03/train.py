import statistics
import tempfile
import time

import lightning as L

from glaciers import Melt


class Timer(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, trainer, module, *rest):
        self.ends.append(time.perf_counter())


def main(steps=60):
    L.seed_everything(1, verbose=False)
    timer, model = Timer(), Melt()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu",
            devices=1,
            max_steps=steps,
            max_epochs=-1,
            gradient_clip_val=1.0,
            logger=False,
            callbacks=[timer],
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            default_root_dir=folder,
        )
        trainer.fit(model)
    times = [1e3 * (end - begin) for begin, end in zip(timer.ends, timer.ends[1:])][2:]
    print(f"loss {model.last.item():.6f} after {trainer.global_step} steps")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")


if __name__ == "__main__":
    main()
