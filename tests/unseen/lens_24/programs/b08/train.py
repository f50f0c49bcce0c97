import statistics
import tempfile
import time

import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

from riddles import AnswersOnly, riddles, words


class Stamps(TrainerCallback):
    def __init__(self):
        self.at = []

    def on_step_end(self, args, state, control, **rest):
        self.at.append(time.perf_counter())


def main(steps=60):
    set_seed(1)
    tokenizer = words()
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=len(tokenizer), n_positions=24, n_embd=128, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None,
    ))
    stamps = Stamps()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model,
            TrainingArguments(
                folder, max_steps=steps, per_device_train_batch_size=24, learning_rate=2e-3, optim="adamw_torch_fused",
                use_cpu=True, report_to="none", logging_strategy="no", save_strategy="no",
                disable_tqdm=True, dataloader_pin_memory=False, ddp_find_unused_parameters=False,
            ),
            data_collator=AnswersOnly(tokenizer), train_dataset=riddles(tokenizer), callbacks=[stamps],
        )
        result = trainer.train()
    if trainer.is_world_process_zero():
        times = [1e3 * (b - a) for a, b in zip(stamps.at, stamps.at[1:])][2:]
        print(f"mean loss {result.training_loss:.6f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
