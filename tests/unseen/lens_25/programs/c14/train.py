import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import statistics
import tempfile
import time

import torch.distributed as dist
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed

from sayings import LANDS, Collate, collect, tokenizer_of


class Laps(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **rest):
        self.ends.append(time.perf_counter())


def main(steps=60, batch=16):
    set_seed(0)
    rows = collect()
    tokenizer = tokenizer_of(rows)
    model = DistilBertForSequenceClassification(DistilBertConfig(
        vocab_size=len(tokenizer), dim=192, n_layers=2, n_heads=4, hidden_dim=576, max_position_embeddings=32, num_labels=LANDS,
    ))
    laps = Laps()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=4e-4, use_cpu=True,
            optim="adamw_torch_fused", logging_steps=50, save_strategy="no", report_to=[], disable_tqdm=True,
            dataloader_pin_memory=False, ddp_find_unused_parameters=False, ddp_backend="gloo", remove_unused_columns=False,
        )
        trainer = Trainer(model, arguments, train_dataset=rows, data_collator=Collate(tokenizer), callbacks=[laps])
        result = trainer.train()
    if trainer.is_world_process_zero():
        times = [1e3 * (end - begin) for begin, end in zip(laps.ends, laps.ends[1:])][2:]
        print(f"mean loss {result.training_loss:.6f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
