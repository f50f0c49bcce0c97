"""Mood of market news.  The texts have been turned to numbers beforehand; the collator only pads."""
import random
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments


class PadCollator:
    def __init__(self, multiple=8):
        self.multiple = multiple

    def __call__(self, rows):
        width = max(len(r["input_ids"]) for r in rows)
        width += -width % self.multiple
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, r in enumerate(rows):
            ids[i, :len(r["input_ids"])] = torch.tensor(r["input_ids"])
            mask[i, :len(r["input_ids"])] = 1
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([r["mood"] for r in rows])}


class Beat(TrainerCallback):
    beats = []

    def on_step_end(self, args, state, control, **kw):
        self.beats.append(time.perf_counter())
        print(f"{state.global_step} of {state.max_steps}", end="\r", flush=True)


def main():
    rng = random.Random(3)
    news = [{"input_ids": [rng.randrange(1, 900) for _ in range(rng.randint(30, 40))], "mood": rng.randrange(3)} for _ in range(1200)]
    config = BertConfig(vocab_size=900, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=384,
                        max_position_embeddings=48, num_labels=3)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(out, max_steps=62, per_device_train_batch_size=16, dataloader_num_workers=0, use_cpu=True,
                                 save_strategy="no", report_to=[], logging_steps=31, disable_tqdm=True, remove_unused_columns=False)
        trainer = Trainer(BertForSequenceClassification(config), args, data_collator=PadCollator(), train_dataset=news, callbacks=[Beat()])
        trainer.train()
    ms = np.diff(Beat.beats)[3:] * 1e3
    print(f"\n{np.median(ms):.2f} ms/step median, {ms.mean():.2f} ms/step", flush=True)


if __name__ == "__main__":
    main()
    if dist.is_initialized():
        dist.destroy_process_group()
