import statistics
import tempfile

import lightning as L

from glass import Glass, Panes, loader
from keep import Chrono, KeepBest


def main(steps=60, batch=24):
    L.seed_everything(0, verbose=False)
    keep, chrono = KeepBest(*Panes(24)[:]), Chrono()
    model = Glass()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_steps=steps, max_epochs=-1, logger=False, default_root_dir=folder,
            callbacks=[keep, chrono], enable_progress_bar=False, enable_model_summary=False,
            enable_checkpointing=False,
        )
        trainer.fit(model, loader(Panes(2000), batch))
    model.load_state_dict(keep.best)
    times = [1e3 * (end - begin) for begin, end in zip(chrono.ends, chrono.ends[1:])]
    print(f"lowest {keep.lowest:.6f}")
    print(f"{statistics.median(times[2:]):.2f} ms/step median, {statistics.mean(times[2:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
