import tempfile

import torch
import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, default_data_collator, set_seed

from callbacks import FreeMemory, Stopwatch


def poems(n=300, length=48, vocab=700):
    g = torch.Generator().manual_seed(17)
    start = torch.randint(0, vocab, (n, 1), generator=g)
    ids = (start + torch.arange(length) * torch.randint(1, 5, (n, 1), generator=g)) % vocab
    return [{"input_ids": row, "labels": row} for row in ids]


def main():
    set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=700, n_positions=48, n_embd=128, n_layer=3, n_head=4))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(folder, max_steps=67, per_device_train_batch_size=10, use_cpu=True, report_to="none",
                                   save_strategy="no", logging_strategy="no", disable_tqdm=True),
            train_dataset=poems(),
            data_collator=default_data_collator,
            callbacks=[Stopwatch()],
        )
        trainer.train()
    del trainer, model


if __name__ == "__main__":
    main()
    if dist.is_initialized():
        dist.destroy_process_group()
