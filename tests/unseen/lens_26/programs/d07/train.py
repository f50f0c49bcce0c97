import os
import statistics
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed

from stays import Stays, guests, learn_tokens


class Collate:
    def __init__(self, tokenizer, length):
        self.tokenizer, self.length = tokenizer, length

    def __call__(self, items):
        texts = [item["text"] for item in items]
        batch = self.tokenizer(texts, padding=True, truncation=True, max_length=self.length, return_tensors="pt")  #: LINE
        batch["labels"] = torch.tensor([item["label"] for item in items])
        return batch


class Pace(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **rest):
        self.ends.append(time.perf_counter())


def main(steps=60, batch=16, length=48):
    set_seed(0)
    texts, stars = guests()
    tokenizer = learn_tokens(texts[:300])
    model = BertForSequenceClassification(BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512,
        max_position_embeddings=128, num_labels=2, pad_token_id=tokenizer.pad_token_id,
    ))
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=batch, use_cpu=True,
            optim="adamw_torch_fused", learning_rate=5e-4, logging_steps=30, save_strategy="no", report_to=[],
            remove_unused_columns=False, disable_tqdm=True, dataloader_pin_memory=False,
        )
        trainer = Trainer(model, args, Collate(tokenizer, length), Stays(texts, stars), callbacks=[pace])
        result = trainer.train()
    times = [1e3 * (end - begin) for begin, end in zip(pace.ends, pace.ends[1:])][2:]
    if trainer.is_world_process_zero():
        print(f"loss {result.training_loss:.5f} over {result.global_step} steps")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
