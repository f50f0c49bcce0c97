import logging
import statistics
import tempfile
import time

import torch
from transformers import DistilBertConfig, DistilBertForTokenClassification, TrainerCallback, TrainingArguments

from names import Names
from trainer import TokenTrainer

logging.basicConfig(level=logging.WARNING)


class Laps(TrainerCallback):
    laps = []

    def on_step_begin(self, *args, **kwargs):
        self.begin = time.perf_counter()

    def on_step_end(self, *args, **kwargs):
        self.laps.append(1000 * (time.perf_counter() - self.begin))


with tempfile.TemporaryDirectory() as where:
    torch.manual_seed(0)
    model = DistilBertForTokenClassification(DistilBertConfig(vocab_size=800, dim=128, hidden_dim=256, n_layers=2, n_heads=4,
                                                              max_position_embeddings=40, num_labels=3))
    args = TrainingArguments(where, max_steps=62, per_device_train_batch_size=24, logging_steps=20, save_strategy="no",
                             report_to="none", disable_tqdm=True, use_cpu=True)
    TokenTrainer(model, args, train_dataset=Names(), callbacks=[Laps]).train()
laps = Laps.laps[3:]
print(f"{statistics.median(laps):.2f} ms/step median, {statistics.mean(laps):.2f} ms/step")
