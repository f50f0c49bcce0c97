import os
import statistics
import tempfile
import time

import lightning as L
import torch

from heart import FineTune, backbone


class Timer(L.Callback):
    def __init__(self):
        self.times = []

    def on_train_batch_start(self, trainer, module, *rest):
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer, module, *rest):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60):
    L.seed_everything(0, verbose=False)
    timer = Timer()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "backbone.pt")
        torch.save(backbone().state_dict(), path)
        module = FineTune(torch.load(path))
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_steps=steps, max_epochs=-1, callbacks=[timer], logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        )
        trainer.fit(module)
    times = timer.times[3:]
    print(f"last loss {module.last.item():.6f} after {trainer.global_step} steps")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")


if __name__ == "__main__":
    main()
