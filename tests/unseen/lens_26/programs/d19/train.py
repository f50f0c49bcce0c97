import statistics
import tempfile
import time

import torch
from transformers import (
    DataCollatorWithPadding, DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed,
)

from adverts import FIELDS, Adverts, adverts, learn_tokens


class Watch(TrainerCallback):
    def __init__(self):
        self.times, self.last = [], None

    def on_step_end(self, args, state, control, **rest):
        now = time.perf_counter()
        if self.last is not None:
            self.times.append(1e3 * (now - self.last))
        self.last = now


def main(steps=60, batch=16):
    set_seed(0)
    texts, fields = adverts()
    tokenizer = learn_tokens(texts)
    data = Adverts(texts, fields, tokenizer)
    model = DistilBertForSequenceClassification(DistilBertConfig(
        vocab_size=len(tokenizer), dim=128, n_layers=2, n_heads=4, hidden_dim=512, max_position_embeddings=64, num_labels=len(FIELDS),
    ))
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=batch, use_cpu=True,
            optim="adamw_torch_fused", learning_rate=3e-4, logging_steps=30, save_strategy="no", report_to=[],
            disable_tqdm=True, dataloader_pin_memory=False,
        )
        trainer = Trainer(model, args, DataCollatorWithPadding(tokenizer), data, callbacks=[watch])
        result = trainer.train()
    if trainer.is_world_process_zero():
        times = watch.times[2:]
        print(f"loss {result.training_loss:.5f} over {result.global_step} steps")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
