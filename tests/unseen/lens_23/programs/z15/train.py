import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import statistics
import tempfile
import time

import torch.distributed as dist
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed

import patents


class Stopwatch(TrainerCallback):
    def __init__(self):
        self.marks = []

    def on_step_end(self, args, state, control, **kwargs):
        self.marks.append(1e3 * time.perf_counter())


def main(steps=60):
    set_seed(0)
    texts, fields = patents.write()
    tokenizer = patents.train_tokenizer(texts)
    shape = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=384,
        max_position_embeddings=64, num_labels=len(patents.FIELDS), hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=12, learning_rate=5e-4, optim="adamw_torch_fused", use_cpu=True,
            ddp_backend="gloo" if "RANK" in os.environ else None, ddp_find_unused_parameters=False, save_strategy="no", logging_strategy="no", report_to=[],
            disable_tqdm=True, dataloader_pin_memory=False, remove_unused_columns=False, dataloader_drop_last=True,
        )
        trainer = Trainer(
            BertForSequenceClassification(shape), args, train_dataset=patents.Patents(texts, fields),
            data_collator=patents.Collator(tokenizer), callbacks=[watch],
        )
        result = trainer.train()
    times = [end - begin for begin, end in zip(watch.marks, watch.marks[1:])][2:]
    if trainer.is_world_process_zero():
        print(f"loss {result.training_loss:.6f} after {trainer.state.global_step} steps")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
