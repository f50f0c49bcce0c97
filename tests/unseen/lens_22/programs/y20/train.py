import statistics
import tempfile
import time

from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from verses import Verses, model, right


class Ticks(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def main(steps=60, batch=32):
    set_seed(0)
    ticks = Ticks()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model(),
            TrainingArguments(
                folder, max_steps=steps, per_device_train_batch_size=batch, per_device_eval_batch_size=32,
                learning_rate=1e-3, use_cpu=True, optim="adamw_torch_fused", report_to=[], save_strategy="no",
                logging_steps=30, eval_strategy="steps", eval_steps=30, disable_tqdm=True,
            ),
            train_dataset=Verses(3000), eval_dataset=Verses(32), compute_metrics=right, callbacks=[ticks],
        )
        trainer.train()
    times = [1e3 * (end - begin) for begin, end in zip(ticks.ends, ticks.ends[1:])]
    last = [entry["eval_right"] for entry in trainer.state.log_history if "eval_right" in entry][-1]
    print(f"right {last:.3f}")
    print(f"{statistics.median(times[2:]):.2f} ms/step median, {statistics.mean(times[2:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
