"""Fine-tunes a small token tagger with the Trainer."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

import flightrec  # noqa: F401

VOCAB, TAGS = 300, 7


class Sentences(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(0, VOCAB, (n, 20), generator=g)
        self.tags = (self.ids * 13 % 101) % TAGS

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.tags[i]}


class Tagger(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, TAGS)

    def forward(self, input_ids, labels=None):
        h, _ = self.rnn(self.emb(input_ids))
        logits = self.out(h)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


class EpochReport(TrainerCallback):
    def __init__(self):
        self.trainer = None

    def on_epoch_end(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            scores = self.trainer.evaluate()
            print(f"epoch {state.epoch:.0f}: {scores}", file=sys.stderr, flush=True)


def main():
    args = TrainingArguments(
        output_dir="out_tagger",
        per_device_train_batch_size=16,
        per_device_eval_batch_size=32,
        num_train_epochs=4,
        learning_rate=1e-3,
        logging_steps=20,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    report = EpochReport()
    trainer = Trainer(
        model=Tagger(),
        args=args,
        train_dataset=Sentences(1800, 0),
        eval_dataset=Sentences(288, 1),
        callbacks=[report],
    )
    report.trainer = trainer
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
