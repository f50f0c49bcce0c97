import logging
import statistics
import tempfile
import warnings

import lightning as L
from lightning.pytorch.loggers import TensorBoardLogger

from graphnet import GraphNet, loader
from watch import Clock, Histograms

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def main():
    L.seed_everything(0, verbose=False)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_steps=60, accelerator="cpu", devices=1, callbacks=[Histograms(), clock], log_every_n_steps=20,
            logger=TensorBoardLogger(folder, name="graphs"), default_root_dir=folder, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        )
        trainer.fit(GraphNet(), loader())
    steps = [1e3 * (b - a) for a, b in zip(clock.ends, clock.ends[1:])][2:]
    print(f"{statistics.median(steps):.2f} ms/step median, {statistics.mean(steps):.2f} ms/step")


if __name__ == "__main__":
    main()
