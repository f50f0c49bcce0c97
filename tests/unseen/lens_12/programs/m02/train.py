import statistics
import tempfile
import time

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from text import Collator, WordPieces, reviews


class Stopwatch(TrainerCallback):
    def __init__(self):
        self.marks = []

    def on_step_end(self, args, state, control, **kw):
        self.marks.append(time.perf_counter())


def main():
    torch.manual_seed(0)
    rows = reviews(640)
    pieces = WordPieces(r["text"] for r in rows)
    config = BertConfig(vocab_size=len(pieces), hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=256, max_position_embeddings=64)
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(out, max_steps=62, per_device_train_batch_size=20, learning_rate=3e-4,
                                 logging_steps=30, save_strategy="no", report_to="none", disable_tqdm=True,
                                 use_cpu=True, remove_unused_columns=False)
        trainer = Trainer(BertForSequenceClassification(config), args, train_dataset=rows,
                          data_collator=Collator(pieces), callbacks=[watch])
        trainer.train()
    ms = [(b - a) * 1e3 for a, b in zip(watch.marks, watch.marks[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")


main()
