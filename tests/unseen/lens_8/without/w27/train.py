"""A small GPT-2 with the Trainer of transformers."""
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from bpe import Tokenizer, corpus
from pace import Pace

STEPS = 64
BATCH = 8
LENGTH = 128


class Paced(TrainerCallback):
    def __init__(self):
        self.pace = Pace()

    def on_step_end(self, args, state, control, **kwargs):
        self.pace.tick()


class Texts(torch.utils.data.Dataset):
    def __init__(self, texts, tokenizer):
        self.items = [tokenizer.encode(text)[:LENGTH] for text in texts]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Collator:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, items):
        rows = items
        ids = torch.zeros(len(rows), LENGTH, dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, :len(row)] = torch.tensor(row)
        labels = ids.masked_fill(ids == 0, -100)
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


def main():
    texts = corpus(STEPS * BATCH, words=170)
    tokenizer = Tokenizer(texts[:20], 512)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=512, n_positions=LENGTH, n_embd=128, n_layer=2, n_head=4))
    paced = Paced()
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out, max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=5e-4,
            logging_steps=20, save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True,
            remove_unused_columns=False, dataloader_pin_memory=False, ddp_backend="gloo")
        trainer = Trainer(model=model, args=args, train_dataset=Texts(texts, tokenizer),
                          data_collator=Collator(tokenizer), callbacks=[paced])
        trainer.train()
    if trainer.is_world_process_zero():
        paced.pace.report()


if __name__ == "__main__":
    main()
