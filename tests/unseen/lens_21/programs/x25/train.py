import statistics
import tempfile
import time

from transformers import Trainer, TrainerCallback, set_seed

from plots import Grower, Plots
from settings import arguments


class Pace(TrainerCallback):
    def __init__(self):
        self.times, self.began = [], 0.0

    def on_step_begin(self, args, state, control, **rest):
        self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **rest):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60):
    set_seed(0)
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(Grower(), arguments(folder, steps), train_dataset=Plots(), callbacks=[pace])
        result = trainer.train()
    print(f"loss {result.training_loss:.6f}")
    print(f"{statistics.median(pace.times[3:]):.2f} ms/step median, {statistics.mean(pace.times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
