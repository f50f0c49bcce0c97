"""Token tagging with the Trainer; confidence intervals by bootstrap are made by the main process only."""
import random
import tempfile
import time

import numpy as np
import torch
from transformers import BertConfig, BertForTokenClassification, Trainer, TrainingArguments


def dataset(n, seed):
    g = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(n):
        ids = torch.randint(5, 150, (24,), generator=g)
        rows.append({"input_ids": ids, "labels": (ids % 3)})
    return rows


def bootstrap(correct, seconds=31):
    rng, means, end = random.Random(0), [], time.monotonic() + seconds
    while time.monotonic() < end:
        pick = [rng.randrange(len(correct)) for _ in range(2000)]
        means.append(float(np.mean(correct[pick])))
        time.sleep(0.05)
    return np.percentile(means, [2.5, 97.5])


class Metrics:
    main = False

    def __call__(self, prediction):
        correct = (prediction.predictions.argmax(-1) == prediction.label_ids).ravel()
        out = {"accuracy": float(correct.mean())}
        if self.main:
            low, high = bootstrap(correct)
            out.update(low=float(low), high=float(high))
        return out


def main():
    torch.manual_seed(0)
    config = BertConfig(vocab_size=150, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=24, num_labels=3)
    args = TrainingArguments(tempfile.mkdtemp(), num_train_epochs=2, per_device_train_batch_size=8, use_cpu=True,
                             eval_strategy="epoch", save_strategy="no", logging_steps=25, report_to=[],
                             learning_rate=3e-3, disable_tqdm=True, ddp_backend="gloo")
    metrics = Metrics()
    trainer = Trainer(model=BertForTokenClassification(config), args=args, train_dataset=dataset(480, 1),
                      eval_dataset=dataset(160, 2), compute_metrics=metrics)
    metrics.main = trainer.is_world_process_zero()
    trainer.train()
    if metrics.main:
        print([h for h in trainer.state.log_history if "eval_accuracy" in h])


if __name__ == "__main__":
    main()
