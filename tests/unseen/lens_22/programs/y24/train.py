import statistics
import tempfile
import time

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from creaks import Creaks, Steps


class Watch(TrainerCallback):
    def __init__(self):
        self.marks = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.begin = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        self.marks.append(1e3 * (time.perf_counter() - self.begin))


def main(steps=60):
    torch.manual_seed(0)
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=20, learning_rate=1e-3, use_cpu=True,
            lr_scheduler_type="constant", save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
        )
        trainer = Trainer(Steps(), arguments, train_dataset=Creaks(), callbacks=[watch])
        result = trainer.train()
    print(f"loss {result.training_loss:.6f}")
    print(f"{statistics.median(watch.marks[3:]):.2f} ms/step median, {statistics.mean(watch.marks[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
