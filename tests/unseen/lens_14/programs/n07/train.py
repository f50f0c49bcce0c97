import statistics
import tempfile
import time
import warnings

import torch
from torch.utils.data import Dataset
from transformers import DistilBertConfig, DistilBertForSequenceClassification, TrainerCallback, TrainingArguments

from cartography import CartographyTrainer

warnings.filterwarnings("ignore")


class Pairs(Dataset):
    def __init__(self, count=1400, length=40, vocab=1500):
        g = torch.Generator().manual_seed(0)
        self.ids = torch.randint(4, vocab, (count, length), generator=g)
        self.labels = torch.randint(3, (count,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids = self.ids[i]
        return {"guid": i, "input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": self.labels[i]}


class Clock(TrainerCallback):
    def __init__(self):
        self.marks = []

    def on_step_end(self, args, state, control, **kwargs):
        self.marks.append(time.perf_counter())


def main():
    torch.manual_seed(0)
    config = DistilBertConfig(vocab_size=1500, max_position_embeddings=40, dim=128, n_layers=2, n_heads=4, hidden_dim=512, num_labels=3)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, max_steps=64, per_device_train_batch_size=20, learning_rate=2e-4, use_cpu=True,
            remove_unused_columns=False, save_strategy="no", logging_steps=30, report_to=[], disable_tqdm=True,
        )
        model = DistilBertForSequenceClassification(config)
        trainer = CartographyTrainer(model=model, args=args, train_dataset=Pairs(), callbacks=[clock])
        trainer.train()
    times = [1e3 * (b - a) for a, b in zip(clock.marks, clock.marks[1:])][2:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
