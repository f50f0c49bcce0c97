import os
import statistics
import tempfile
import time

import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

from logbooks import Logbooks, to_fixed


class Ends(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **rest):
        self.ends.append(time.perf_counter())


def main(steps=60):
    set_seed(2)
    ends = Ends()
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=900, n_positions=64, n_embd=128, n_layer=2, n_head=4, use_cache=False, bos_token_id=0, eos_token_id=0,
    ))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=8, learning_rate=5e-4, optim="adamw_torch_fused",
            logging_steps=50, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True,
            ddp_find_unused_parameters=False, max_grad_norm=0, logging_nan_inf_filter=False,
        )
        trainer = Trainer(model, args, data_collator=to_fixed, train_dataset=Logbooks(), callbacks=[ends])
        result = trainer.train()
    if int(os.environ.get("RANK", 0)) == 0:
        times = [1e3 * (end - begin) for begin, end in zip(ends.ends, ends.ends[1:])][2:]
        print(f"loss {result.training_loss:.5f} after {len(ends.ends)} steps")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
