import statistics
import tempfile
import time

from transformers import BertConfig, BertForSequenceClassification, TrainerCallback, TrainingArguments, set_seed

from tickets import Tickets
from tune import UpperTrainer


class Clock(TrainerCallback):
    def __init__(self):
        self.begins = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())

    def on_train_end(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())

def main():
    set_seed(0)
    config = BertConfig(
        vocab_size=4000, hidden_size=192, num_hidden_layers=3, num_attention_heads=4, intermediate_size=768,
        max_position_embeddings=64, num_labels=8,
    )
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=60, per_device_train_batch_size=16, learning_rate=5e-4, use_cpu=True,
            max_grad_norm=0, logging_steps=30, save_strategy="no", report_to=[], disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = UpperTrainer(
            model=BertForSequenceClassification(config), args=arguments, train_dataset=Tickets(), callbacks=[clock],
        )
        trainer.train()
    times = [1e3 * (b - a) for a, b in zip(clock.begins, clock.begins[1:])]
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
