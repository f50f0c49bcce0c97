import statistics
import tempfile
import time

from transformers import TrainerCallback, TrainingArguments, set_seed

from decay import DecayTrainer
from recipes import Recipes, model


class Pulse(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def main(steps=60, batch=8):
    set_seed(0)
    pulse = Pulse()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=1e-3,
            warmup_steps=6, use_cpu=True, report_to=[], save_strategy="no", logging_steps=30, disable_tqdm=True,
        )
        trainer = DecayTrainer(model(), arguments, strength=1e-4, train_dataset=Recipes(), callbacks=[pulse])
        trainer.train()
    times = [1e3 * (end - begin) for begin, end in zip(pulse.ends, pulse.ends[1:])]
    print(f"loss {trainer.state.log_history[-1]['train_loss']:.6f}")
    print(f"{statistics.median(times[2:]):.2f} ms/step median, {statistics.mean(times[2:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
