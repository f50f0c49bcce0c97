import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, EarlyStoppingCallback, Trainer, TrainingArguments


class Reviews(Dataset):
    """Review lengths differ a lot, so do the batches of the two processes."""

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 7919 + i)
        size = int(torch.randint(8, 120, (1,), generator=g))
        ids = torch.randint(2, 300, (size,), generator=g)
        return {"ids": ids, "label": int(ids[0] % 2)}


def pad(rows):
    size = max(len(r["ids"]) for r in rows)
    ids = torch.zeros(len(rows), size, dtype=torch.long)
    for k, r in enumerate(rows):
        ids[k, : len(r["ids"])] = r["ids"]
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([r["label"] for r in rows])}


def metrics(pred):
    return {"accuracy": float((pred.predictions.argmax(-1) == pred.label_ids).mean())}


def main():
    torch.manual_seed(0)
    config = BertConfig(vocab_size=300, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, max_position_embeddings=128)
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=4, per_device_eval_batch_size=8, max_steps=600, eval_strategy="steps",
        eval_steps=40, save_strategy="steps", save_steps=40, load_best_model_at_end=True, metric_for_best_model="accuracy", save_total_limit=1,
        logging_steps=40, report_to=[], use_cpu=True, disable_tqdm=True, remove_unused_columns=False, learning_rate=1e-5,
    )
    trainer = Trainer(model=BertForSequenceClassification(config), args=args, train_dataset=Reviews(3001, 1), eval_dataset=Reviews(403, 2),
                      data_collator=pad, compute_metrics=metrics, callbacks=[EarlyStoppingCallback(early_stopping_patience=2)])
    trainer.train()
    print(f"process {args.process_index} stopped at {trainer.state.global_step}", flush=True)


if __name__ == "__main__":
    main()
