import logging
import statistics
import tempfile
import time

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

from verse import Inspect, Verses


class Clock(TrainerCallback):
    def __init__(self):
        self.begins = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())

    def on_train_end(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())

def main():
    logging.basicConfig(level=logging.WARNING)
    set_seed(0)
    config = GPT2Config(
        vocab_size=1500, n_positions=64, n_embd=160, n_layer=2, n_head=4,
        activation_function="gelu_pytorch_tanh",
    )
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=60, per_device_train_batch_size=16, learning_rate=5e-4, use_cpu=True,
            optim="adamw_torch_fused", logging_steps=30, save_strategy="no", report_to=[], disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        Trainer(
            model=GPT2LMHeadModel(config), args=arguments, train_dataset=Verses(), callbacks=[Inspect(), clock],
        ).train()
    times = [1e3 * (b - a) for a, b in zip(clock.begins, clock.begins[1:])]
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
