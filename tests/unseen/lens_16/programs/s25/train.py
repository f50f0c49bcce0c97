import statistics
import tempfile
import time

from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from lm import CharacterLM, Lines


class Clock(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def main():
    set_seed(0)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, max_steps=60, per_device_train_batch_size=16, learning_rate=1e-3, use_cpu=True,
            save_strategy="no", report_to=[], logging_steps=30, disable_tqdm=True, dataloader_drop_last=True,
        )
        Trainer(model=CharacterLM(), args=args, train_dataset=Lines(), callbacks=[clock]).train()
    steps = [1e3 * (b - a) for a, b in zip(clock.ends, clock.ends[1:])][2:]
    print(f"{statistics.median(steps):.2f} ms/step median, {statistics.mean(steps):.2f} ms/step")


main()
