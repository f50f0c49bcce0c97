import statistics
import tempfile
import time

import torch
from transformers import DistilBertConfig, DistilBertForMaskedLM, Trainer, TrainerCallback, TrainingArguments, set_seed

from masking import Masking

ARTICLES = 1400


class Watch(TrainerCallback):
    def __init__(self):
        self.times, self.before = [], None

    def on_step_end(self, args, state, control, **rest):
        now = time.perf_counter()
        if self.before is not None:
            self.times.append(1e3 * (now - self.before))
        self.before = now


def baskets(count=1600, length=24):
    groups = torch.randint(0, 20, (count, 1))
    return list(1 + (70 * groups + torch.randint(0, 69, (count, length))))


def main(steps=60, batch=40):
    set_seed(0)
    config = DistilBertConfig(
        vocab_size=ARTICLES, dim=96, n_layers=3, n_heads=4, hidden_dim=256, max_position_embeddings=24,
        dropout=0.0, attention_dropout=0.0,
    )
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=1e-3, use_cpu=True, report_to="none",
            logging_strategy="no", save_strategy="no", disable_tqdm=True, optim="adamw_torch_fused", max_grad_norm=0,
            dataloader_pin_memory=False, remove_unused_columns=False,
        )
        trainer = Trainer(
            DistilBertForMaskedLM(config), args, train_dataset=baskets(),
            data_collator=Masking(ARTICLES, mask=0), callbacks=[watch],
        )
        result = trainer.train()
    print(f"loss {result.training_loss:.5f} after {result.global_step} steps")
    print(f"{statistics.median(watch.times[2:]):.2f} ms/step median, {statistics.mean(watch.times[2:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
