import statistics
import tempfile
import time

from transformers import TrainerCallback, TrainingArguments, set_seed

from ledger import ExampleTrainer, Ledger
from letters import Letters, model


class StepClock(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def main(steps=60, batch=40):
    set_seed(0)
    clock = StepClock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=1e-3, use_cpu=True,
            optim="adamw_torch_fused", report_to=[], save_strategy="no", logging_steps=30, disable_tqdm=True,
            remove_unused_columns=False,
        )
        trainer = ExampleTrainer(model(), arguments, train_dataset=Letters(), ledger=Ledger(folder), callbacks=[clock])
        trainer.train()
    times = [1e3 * (end - begin) for begin, end in zip(clock.ends, clock.ends[1:])]
    print(f"loss {trainer.state.log_history[-1]['train_loss']:.6f}")
    print(f"{statistics.median(times[2:]):.2f} ms/step median, {statistics.mean(times[2:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
