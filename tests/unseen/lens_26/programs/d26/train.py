import statistics
import tempfile
import time

import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

from minutes import WIDTH, Minutes, collate


class Pace(TrainerCallback):
    def __init__(self):
        self.marks = []

    def on_step_end(self, args, state, control, **rest):
        self.marks.append(time.perf_counter())


def main(steps=60):
    set_seed(3)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=2400, n_positions=WIDTH, n_embd=96, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1))
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=6, learning_rate=1e-3, optim="adamw_torch_fused",
            use_cpu=True, report_to=[], logging_strategy="no", save_strategy="no", disable_tqdm=True,
            ddp_find_unused_parameters=False,
        )
        trainer = Trainer(model=model, args=settings, train_dataset=Minutes(), data_collator=collate, callbacks=[pace])
        result = trainer.train()
    if trainer.is_world_process_zero():
        times = [1e3 * (after - before) for before, after in zip(pace.marks, pace.marks[1:])][2:]
        print(f"loss {result.training_loss:.6f} on average after {result.global_step} steps")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
