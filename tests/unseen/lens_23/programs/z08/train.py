import statistics
import tempfile
import time

import lightning as L

from parcels import Sorter


class Timer(L.Callback):
    def __init__(self):
        self.marks = []

    def on_train_batch_end(self, trainer, module, *rest):
        self.marks.append(1e3 * time.perf_counter())


def main(steps=60):
    L.seed_everything(8, verbose=False)
    timer, model = Timer(), Sorter()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_steps=steps, max_epochs=-1, callbacks=[timer], logger=False,
            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder,
            use_distributed_sampler=False,
        )
        trainer.fit(model)
    times = [end - begin for begin, end in zip(timer.marks, timer.marks[1:])][2:]
    print(f"loss {model.last.item():.6f} after {trainer.global_step} steps")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")


if __name__ == "__main__":
    main()
