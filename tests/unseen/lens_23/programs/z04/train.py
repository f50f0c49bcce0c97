import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import statistics
import tempfile
import time

import torch.distributed as dist
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed

from wishes import SHOPS, Wishes, collator, tokens_of


class Beats(TrainerCallback):
    def __init__(self):
        self.times, self.last = [], None

    def on_step_end(self, args, state, control, **kwargs):
        now = time.perf_counter()
        if self.last is not None:
            self.times.append(1e3 * (now - self.last))
        self.last = now


def main(steps=60):
    set_seed(9)
    wishes, beats = Wishes(), Beats()
    tokenizer = tokens_of(wishes)
    model = DistilBertForSequenceClassification(DistilBertConfig(
        vocab_size=len(tokenizer), dim=192, n_layers=3, n_heads=6, hidden_dim=640, max_position_embeddings=16, num_labels=len(SHOPS),
        dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, pad_token_id=tokenizer.pad_token_id,
    ))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=24, learning_rate=4e-4, optim="adamw_torch_fused", use_cpu=True,
            ddp_backend="gloo" if "RANK" in os.environ else None, ddp_find_unused_parameters=False, save_strategy="no", logging_strategy="no", report_to=[],
            disable_tqdm=True, dataloader_pin_memory=False, remove_unused_columns=False,
        )
        trainer = Trainer(model, args, train_dataset=wishes, data_collator=collator(tokenizer), callbacks=[beats])
        result = trainer.train()
    if trainer.is_world_process_zero():
        print(f"loss {result.training_loss:.6f} after {trainer.state.global_step} steps")
        print(f"{statistics.median(beats.times[2:]):.2f} ms/step median, {statistics.mean(beats.times[2:]):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
