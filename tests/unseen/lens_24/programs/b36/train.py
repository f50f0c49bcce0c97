import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from prompts import Notes, Prompted


class Stopwatch(TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, args, state, control, **rest):
        self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **rest):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60, batch=16):
    set_seed(2)
    model, watch = Prompted(), Stopwatch()
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=1e-2, fused=True)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, use_cpu=True, per_device_train_batch_size=batch, max_steps=steps, max_grad_norm=0.0, report_to=[],
            logging_strategy="no", save_strategy="no", disable_tqdm=True, ddp_find_unused_parameters=False,
            dataloader_pin_memory=False, remove_unused_columns=False,
        )
        trainer = Trainer(model, args, train_dataset=Notes(), optimizers=(optimizer, None), callbacks=[watch])
        trainer.train()
    if trainer.is_world_process_zero():
        print(f"steps {trainer.state.global_step}")
        print(f"{statistics.median(watch.times[3:]):.2f} ms/step median, {statistics.mean(watch.times[3:]):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
