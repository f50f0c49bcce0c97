import statistics
import tempfile
import time

import torch
from transformers import BertForSequenceClassification, Trainer, TrainerCallback

from letters import Letters
from settings import arguments, model_config


class Pace(TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60):
    torch.manual_seed(0)
    pace = Pace()
    model = BertForSequenceClassification(model_config())
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, arguments(folder, steps), train_dataset=Letters(), callbacks=[pace])
        result = trainer.train()
    print(f"loss {result.training_loss:.6f}")
    print(f"{statistics.median(pace.times[3:]):.2f} ms/step median, {statistics.mean(pace.times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
