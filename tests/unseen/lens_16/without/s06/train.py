import statistics
import tempfile
import time

from transformers import Trainer, TrainerCallback, set_seed

from encoder import PairNet, Pairs
from settings import arguments


class Clock(TrainerCallback):
    def __init__(self):
        self.begins = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())

    def on_train_end(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())


def main():
    set_seed(0)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model=PairNet(), args=arguments(folder), train_dataset=Pairs(), callbacks=[clock])
        trainer.train()
    steps = [1e3 * (b - a) for a, b in zip(clock.begins, clock.begins[1:])][3:]
    print(f"{statistics.median(steps):.2f} ms/step median, {statistics.mean(steps):.2f} ms/step")


if __name__ == "__main__":
    main()
