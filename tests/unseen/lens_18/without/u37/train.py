import logging
import statistics
import time
import warnings

import lightning as L

from flow import Flow, readings
from settings import trainer_settings

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Laps(L.Callback):
    def __init__(self):
        self.begins = []

    def on_train_batch_start(self, trainer, module, batch, index):
        self.begins.append(time.perf_counter())

    def on_train_end(self, trainer, module):
        self.begins.append(time.perf_counter())

def main():
    L.seed_everything(0)
    laps = Laps()
    trainer = L.Trainer(callbacks=[laps], **trainer_settings())
    trainer.fit(Flow(), readings(1280))
    times = [1e3 * (b - a) for a, b in zip(laps.begins, laps.begins[1:])]
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
