import statistics
import tempfile
import time
import warnings

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2ForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

warnings.filterwarnings("ignore")


class Intents(Dataset):
    def __init__(self, count=900, length=44, vocab=1800):
        g = torch.Generator().manual_seed(2)
        self.ids = torch.randint(3, vocab, (count, length), generator=g)
        self.labels = (self.ids[:, 0] % 7).tolist()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


def collate(rows):
    return {
        "input_ids": torch.stack([row["input_ids"] for row in rows]),
        "labels": torch.tensor([row["labels"] for row in rows]),
    }


class Progress(TrainerCallback):
    def __init__(self):
        self.marks = []

    def on_step_end(self, args, state, control, **kwargs):
        self.marks.append(time.perf_counter())

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print(f"{state.global_step:4d} loss {logs['loss']} norm {logs.get('grad_norm')}", flush=True)


def main():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=1800, n_positions=44, n_embd=128, n_layer=2, n_head=4, num_labels=7, pad_token_id=0)
    progress = Progress()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            max_steps=62,
            per_device_train_batch_size=20,
            learning_rate=4e-4,
            max_grad_norm=1.0,
            use_cpu=True,
            logging_steps=100,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        model = GPT2ForSequenceClassification(config)
        trainer = Trainer(model=model, args=args, train_dataset=Intents(), data_collator=collate, callbacks=[progress])
        trainer.train()
    times = [1e3 * (b - a) for a, b in zip(progress.marks, progress.marks[1:])][2:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
