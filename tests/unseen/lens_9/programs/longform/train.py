"""Continues essays.  Llama-like, small, on two processes."""
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from data import Essays


def small_llama():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=4500, hidden_size=128, intermediate_size=320, num_hidden_layers=2,
                                        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, use_cache=False))


class TimedTrainer(Trainer):
    marks = []

    def training_step(self, *args, **kwargs):
        self.marks.append(time.perf_counter())
        return super().training_step(*args, **kwargs)


def get_args(folder):
    return TrainingArguments(
        output_dir=folder, use_cpu=True, ddp_backend="gloo", max_steps=62, per_device_train_batch_size=6,
        learning_rate=1e-3, lr_scheduler_type="cosine", warmup_steps=10, weight_decay=0.01,
        gradient_checkpointing=True,
        ddp_find_unused_parameters=False, logging_steps=25, save_strategy="no", report_to="none", disable_tqdm=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        trainer = TimedTrainer(model=small_llama(), args=get_args(folder), train_dataset=Essays())
        trainer.train()
        first = trainer.is_world_process_zero()
        trainer.model_wrapped = None
        trainer.accelerator.free_memory()
        del trainer
    if first:
        ms = 1000 * np.diff(TimedTrainer.marks)[3:]
        print(f"{np.median(ms):.2f} ms/step median, {np.mean(ms):.2f} ms/step", flush=True)


if __name__ == "__main__":
    main()
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
