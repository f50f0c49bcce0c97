import statistics
import tempfile
import time

from transformers import Trainer, TrainerCallback, set_seed

from mushrooms import Mushrooms, build
from settings import arguments


class Clock(TrainerCallback):
    def __init__(self):
        self.marks = []

    def on_step_end(self, args, state, control, **rest):
        self.marks.append(time.perf_counter())


def main(steps=60):
    set_seed(0)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(build(), arguments(folder, steps), train_dataset=Mushrooms(), callbacks=[clock])
        result = trainer.train()
    times = [1e3 * (end - begin) for begin, end in zip(clock.marks, clock.marks[1:])]
    print(f"loss {result.training_loss:.6f}")
    print(f"{statistics.median(times[2:]):.2f} ms/step median, {statistics.mean(times[2:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
