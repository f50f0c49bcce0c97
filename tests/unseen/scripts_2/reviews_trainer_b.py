import os

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed

PARTS = {"north": 48, "south": 80}
VOCAB = 50


class Reviews(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, label = self.rows[i]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(label)}


def load_part(name):
    g = torch.Generator().manual_seed(len(name) + ord(name[0]))
    rows = []
    for _ in range(PARTS[name]):
        ids = torch.randint(0, VOCAB, (12,), generator=g).tolist()
        rows.append((ids, int(sum(ids) % 2)))
    return rows


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(VOCAB, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, input_ids, labels=None):
        logits = self.head(self.emb(input_ids))
        out = {"logits": logits}
        if labels is not None:
            out["loss"] = nn.functional.cross_entropy(logits, labels)
        return out


def build_dataset():
    names = sorted(PARTS)
    rows = []
    for name in names:
        rows += load_part(name)
    return Reviews(rows)


def main():
    set_seed(11)
    args = TrainingArguments(
        output_dir=os.path.join("/tmp", "reviews_trainer_out"),
        use_cpu=True,
        ddp_backend="gloo",
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        num_train_epochs=2,
        learning_rate=1e-2,
        logging_steps=2,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_num_workers=0,
    )
    trainer = Trainer(
        model=BagOfWords(),
        args=args,
        train_dataset=build_dataset(),
        eval_dataset=Reviews(load_part("north")),
    )
    result = trainer.train()
    metrics = trainer.evaluate()
    if trainer.is_world_process_zero():
        print("train loss", round(result.training_loss, 4), "eval", round(metrics["eval_loss"], 4))


if __name__ == "__main__":
    main()
