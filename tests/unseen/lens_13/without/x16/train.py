import statistics
import tempfile
import time

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

from questions import Pad, questions


class Clock(TrainerCallback):
    def __init__(self):
        self.marks, self.losses = [], []

    def on_step_end(self, args, state, control, **kwargs):
        self.marks.append(time.perf_counter())

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.losses.append(logs["loss"])


set_seed(0)
clock = Clock()
model = GPT2LMHeadModel(GPT2Config(vocab_size=2500, n_positions=64, n_embd=128, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=2))
rows = [{"input_ids": (r["input_ids"] * 3)[:43]} for r in questions()]
with tempfile.TemporaryDirectory() as folder:
    args = TrainingArguments(
        output_dir=folder, max_steps=64, per_device_train_batch_size=8, learning_rate=1e-3, use_cpu=True, save_strategy="no",
        logging_steps=10, report_to=[], disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=args, train_dataset=rows, data_collator=Pad(), callbacks=[clock])
    trainer.train()
times = [1e3 * (b - a) for a, b in zip(clock.marks, clock.marks[1:])][2:]
print(f"loss {clock.losses[-1]}")
print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
