import statistics
import tempfile
import time
import warnings

import torch
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from buckets import Buckets, Questions, collate

warnings.filterwarnings("ignore")


class BucketTrainer(Trainer):
    def get_train_dataloader(self):
        data = self.train_dataset
        sampler = Buckets([len(row) for row in data.rows], self.args.per_device_train_batch_size)
        return self.accelerator.prepare(DataLoader(data, batch_sampler=sampler, collate_fn=collate))


class Ticks(TrainerCallback):
    def __init__(self):
        self.marks = []

    def on_step_end(self, args, state, control, **kwargs):
        self.marks.append(time.perf_counter())


def main():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=1500, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512,
        max_position_embeddings=96, num_labels=3,
    )
    ticks = Ticks()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, max_steps=60, per_device_train_batch_size=16, learning_rate=3e-4, use_cpu=True,
            remove_unused_columns=False, save_strategy="no", logging_steps=30, report_to=[], disable_tqdm=True,
        )
        model = BertForSequenceClassification(config)
        BucketTrainer(model=model, args=args, train_dataset=Questions(), callbacks=[ticks]).train()
    times = [1e3 * (b - a) for a, b in zip(ticks.marks, ticks.marks[1:])][2:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
