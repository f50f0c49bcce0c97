import os
import statistics
import tempfile
import time

import torch.distributed as dist
from transformers import (
    BertConfig, BertForSequenceClassification, DataCollatorWithPadding, Trainer, TrainerCallback, TrainingArguments, set_seed,
)

from letters_to_council import TOPICS, Letters, tokenizer


class Clock(TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, args, state, control, **rest):
        self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **rest):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60):
    set_seed(0)
    words, clock = tokenizer(), Clock()
    model = BertForSequenceClassification(BertConfig(
        vocab_size=len(words), hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512,
        max_position_embeddings=160, num_labels=len(TOPICS),
    ))
    collator = DataCollatorWithPadding(words, padding="max_length", max_length=112)  #: LINE
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=6, learning_rate=3e-4, optim="adamw_torch_fused",
            logging_steps=50, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True,
            ddp_find_unused_parameters=False, max_grad_norm=0, logging_nan_inf_filter=False,
        )
        trainer = Trainer(model, args, data_collator=collator, train_dataset=Letters(words), callbacks=[clock])
        result = trainer.train()
    if int(os.environ.get("RANK", 0)) == 0:
        times = clock.times[3:]
        print(f"loss {result.training_loss:.5f} after {len(clock.times)} steps")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
