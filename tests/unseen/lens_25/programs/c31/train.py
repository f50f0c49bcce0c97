import statistics
import tempfile
import time

import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

from sagas import Sagas


class Watch(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **rest):
        self.ends.append(time.perf_counter())


def main(steps=60, batch=10):
    set_seed(0)
    sagas, watch = Sagas(), Watch()
    config = GPT2Config(
        vocab_size=512, n_positions=64, n_embd=128, n_layer=3, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=0, eos_token_id=0, use_cache=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            GPT2LMHeadModel(config),
            TrainingArguments(
                folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=1e-3, optim="adamw_torch_fused",
                use_cpu=True, ddp_find_unused_parameters=False, ddp_broadcast_buffers=False,
                logging_strategy="no", save_strategy="no", report_to=[], disable_tqdm=True, dataloader_drop_last=True,
            ),
            train_dataset=sagas, data_collator=sagas.collate, callbacks=[watch],
        )
        done = trainer.train()
    if trainer.is_world_process_zero():
        times = [1e3 * (b - a) for a, b in zip(watch.ends, watch.ends[1:])][2:]
        print(f"mean loss {done.training_loss:.6f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
