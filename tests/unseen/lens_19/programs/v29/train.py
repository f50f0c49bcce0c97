import logging
import statistics
import tempfile
import time
import warnings

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from letters import collator, letters, tokenizer

warnings.filterwarnings("ignore")
logging.getLogger("transformers").setLevel(logging.ERROR)


class Laps(TrainerCallback):
    def __init__(self):
        self.begins = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())

    def on_train_end(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())


def main(words=2000):
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(
        vocab_size=words, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=384,
        max_position_embeddings=96, num_labels=6,
    ))
    laps = Laps()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=60, per_device_train_batch_size=24, use_cpu=True, report_to="none",
            optim="adamw_torch_fused", logging_strategy="no", save_strategy="no", disable_tqdm=True,
            logging_nan_inf_filter=False, seed=0, ddp_find_unused_parameters=False,
        )
        Trainer(
            model, args, data_collator=collator(tokenizer(words)), train_dataset=letters(3000, words), callbacks=[laps],
        ).train()
    times = [1e3 * (b - a) for a, b in zip(laps.begins, laps.begins[1:])]
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
