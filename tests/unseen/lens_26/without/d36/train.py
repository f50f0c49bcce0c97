import statistics
import tempfile
import time

import torch.distributed as dist
from transformers import (
    BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed,
)

from reviews import LONGEST, Reviews, collate


class Steps(TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, args, state, control, **rest):
        self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **rest):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60):
    set_seed(7)
    model = BertForSequenceClassification(BertConfig(
        vocab_size=3000, hidden_size=96, num_hidden_layers=2, num_attention_heads=4, intermediate_size=384,
        max_position_embeddings=LONGEST, num_labels=5,
    ))
    watch = Steps()
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=8, learning_rate=5e-4, optim="adamw_torch_fused",
            use_cpu=True, report_to=[], logging_strategy="no", save_strategy="no", disable_tqdm=True,
            ddp_find_unused_parameters=False,
        )
        trainer = Trainer(model=model, args=settings, train_dataset=Reviews(), data_collator=collate, callbacks=[watch])
        result = trainer.train()
    if trainer.is_world_process_zero():
        print(f"loss {result.training_loss:.6f} on average after {result.global_step} steps")
        print(f"{statistics.median(watch.times[3:]):.2f} ms/step median, {statistics.mean(watch.times[3:]):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
