"""Mosses and lichens from the words of a field guide (masked words)."""
import statistics
import tempfile

import torch
import torch.distributed as dist
from transformers import DistilBertConfig, DistilBertForMaskedLM, Trainer, TrainingArguments

from tidy import Tidy, Times


def sentences(n, seed):
    g = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(n):
        ids = torch.randint(5, 600, (32,), generator=g)
        hide = torch.rand(32, generator=g) < 0.2
        rows.append({"input_ids": ids.masked_fill(hide, 4), "labels": ids.masked_fill(~hide, -100)})
    return rows


def main():
    torch.manual_seed(0)
    times = Times()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, use_cpu=True, num_train_epochs=1, per_device_train_batch_size=16, per_device_eval_batch_size=32,
            eval_strategy="epoch", save_strategy="epoch", save_only_model=True,
            logging_strategy="epoch", report_to=[], disable_tqdm=True)
        model = DistilBertForMaskedLM(DistilBertConfig(vocab_size=600, dim=144, n_layers=3, n_heads=4, hidden_dim=432, max_position_embeddings=32))
        trainer = Trainer(model, args, train_dataset=sentences(62 * 16, 1), eval_dataset=sentences(96, 2), callbacks=[Tidy(), times])
        trainer.train()
        del trainer, model
    ms = [(b - a) * 1e3 for a, b in zip(times.v, times.v[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step", flush=True)


main()
if dist.is_initialized():
    dist.destroy_process_group()
