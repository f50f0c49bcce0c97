import statistics
import tempfile
import time

from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed

from intents import Collate, Requests


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
        vocab_size=6000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512,
        max_position_embeddings=128, num_labels=24,
    )
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=60, per_device_train_batch_size=16, learning_rate=5e-4, use_cpu=True,
            logging_steps=20, save_strategy="no", report_to=[], disable_tqdm=True, remove_unused_columns=False,
        )
        trainer = Trainer(
            model=BertForSequenceClassification(config), args=arguments, train_dataset=Requests(),
            data_collator=Collate(max_length=64), callbacks=[clock],
        )
        trainer.train()
    steps = [1e3 * (b - a) for a, b in zip(clock.begins, clock.begins[1:])][3:]
    print(f"{statistics.median(steps):.2f} ms/step median, {statistics.mean(steps):.2f} ms/step mean")


if __name__ == "__main__":
    main()
