import statistics
import tempfile
import time
import warnings

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from collate import Collator
from texts import Reviews

warnings.filterwarnings("ignore")


class Stopwatch(TrainerCallback):
    def __init__(self):
        self.laps = []

    def on_step_end(self, args, state, control, **kwargs):
        self.laps.append(time.perf_counter())


def build():
    config = BertConfig(
        vocab_size=2000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=384,
        max_position_embeddings=128, num_labels=2,
    )
    return BertForSequenceClassification(config)


def main():
    torch.manual_seed(0)
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=60, per_device_train_batch_size=12, learning_rate=3e-4, warmup_steps=6,
            remove_unused_columns=False, use_cpu=True, save_strategy="no", logging_steps=20, report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=build(), args=arguments, train_dataset=Reviews(), data_collator=Collator(), callbacks=[watch]
        )
        trainer.train()
    laps = [1e3 * (b - a) for a, b in zip(watch.laps, watch.laps[1:])][2:]
    print(f"{statistics.median(laps):.2f} ms/step median, {statistics.mean(laps):.2f} ms/step")


if __name__ == "__main__":
    main()
