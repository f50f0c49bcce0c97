import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from lichen import Lichen, Stones, new_parts


class Pace(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **rest):
        self.ends.append(time.perf_counter())


def main(steps=60, batch=16):
    set_seed(0)
    pace, model = Pace(), Lichen()
    optimizer = torch.optim.AdamW(new_parts(model), lr=1e-3, fused=True)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, use_cpu=True, report_to="none",
            logging_strategy="no", save_strategy="no", disable_tqdm=True, max_grad_norm=0, dataloader_pin_memory=False,
            dataloader_drop_last=True, remove_unused_columns=False, ddp_broadcast_buffers=False,
            ddp_find_unused_parameters=False,
        )
        trainer = Trainer(
            model, args, train_dataset=Stones(), data_collator=dict, callbacks=[pace], optimizers=(optimizer, None),
        )
        result = trainer.train()
    if trainer.is_world_process_zero():
        times = [1e3 * (end - begin) for begin, end in zip(pace.ends, pace.ends[1:])]
        print(f"loss {result.training_loss:.5f} after {result.global_step} steps")
        print(f"{statistics.median(times[2:]):.2f} ms/step median, {statistics.mean(times[2:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
