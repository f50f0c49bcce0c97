import statistics
import tempfile
import time

import lightning as L
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy

from rail import Resources, Wear


class Tempo(L.Callback):
    def __init__(self):
        self.times = []

    def on_train_batch_start(self, *rest):
        now = time.perf_counter()
        if hasattr(self, "began"):
            self.times.append(1e3 * (now - self.began))
        self.began = now


def main(steps=60):
    L.seed_everything(0, verbose=False)
    tempo, resources, model = Tempo(), Resources(), Wear()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend="gloo", gradient_as_bucket_view=True),
            max_steps=steps, max_epochs=-1, callbacks=[tempo, resources], logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False, default_root_dir=folder,
        )
        trainer.fit(model)
    if trainer.is_global_zero:
        times = tempo.times[3:]
        most = max(rss for _, rss, *_ in resources.rows)
        print(f"loss {model.last.item():.6f} after {trainer.global_step} steps, at most {most >> 20} MiB")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
