import logging
import statistics
import tempfile
import time
import warnings

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from blocks import Blocks, collate

warnings.filterwarnings("ignore")
logging.getLogger("transformers").setLevel(logging.ERROR)


class Laps(TrainerCallback):
    def __init__(self):
        self.begins = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())

    def on_train_end(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())


def main(words=900, length=64):
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=words, n_positions=length, n_embd=128, n_layer=2, n_head=4, use_cache=False, pad_token_id=0,
        bos_token_id=1, eos_token_id=1, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    ))
    laps = Laps()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=60, per_device_train_batch_size=20, use_cpu=True, report_to="none",
            optim="adamw_torch_fused", logging_strategy="no", save_strategy="no", disable_tqdm=True,
            logging_nan_inf_filter=False, seed=0, ddp_find_unused_parameters=False,
        )
        Trainer(model, args, data_collator=collate, train_dataset=Blocks(length, words), callbacks=[laps]).train()
    times = [1e3 * (b - a) for a, b in zip(laps.begins, laps.begins[1:])]
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
