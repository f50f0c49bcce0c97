"""Fine-tune a toy classifier with the Hugging Face Trainer and report eval numbers."""
import os
import shutil
import tempfile
from datetime import timedelta

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed
from transformers.modeling_outputs import SequenceClassifierOutput

VOCAB, LENGTH, LABELS = 50, 12, 3


class BagDataset(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(0, VOCAB, (n, LENGTH), generator=g)
        self.labels = self.ids.sum(dim=1) % LABELS

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


class BagOfWords(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.head = nn.Linear(dim, LABELS)

    def forward(self, input_ids, labels=None):
        logits = self.head(self.emb(input_ids).mean(dim=1))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


def compute_metrics(pred):
    guess = np.argmax(pred.predictions, axis=-1)
    return {"accuracy": float((guess == pred.label_ids).mean())}


def main():
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=20))
    set_seed(42)
    out = os.path.join(tempfile.gettempdir(), "hf_classify_out")
    args = TrainingArguments(
        output_dir=out,
        max_steps=8,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        learning_rate=1e-2,
        logging_steps=4,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        ddp_backend="gloo",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=BagOfWords(),
        args=args,
        train_dataset=BagDataset(80, seed=1),
        eval_dataset=BagDataset(22, seed=2),
        compute_metrics=compute_metrics,
    )
    trainer.train()

    metrics = trainer.evaluate()
    if trainer.is_world_process_zero():
        print("eval:", {k: round(v, 4) for k, v in metrics.items() if "accuracy" in k or "loss" in k})

    trainer.accelerator.wait_for_everyone()
    trainer.save_model(out)
    if trainer.is_world_process_zero():
        print(sorted(os.listdir(out)))
        shutil.rmtree(out, ignore_errors=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
