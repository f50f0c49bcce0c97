"""A small BERT classifier with the Trainer of transformers."""
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from pace import Pace

STEPS = 60
BATCH = 16
LENGTH = 64


class Paced(TrainerCallback):
    def __init__(self):
        self.pace = Pace()

    def on_step_end(self, args, state, control, **kwargs):
        self.pace.tick()


class Reviews(torch.utils.data.Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(3)
        self.ids = torch.randint(5, 8000, (count, LENGTH), generator=generator)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(LENGTH, dtype=torch.long),
                "labels": int(self.ids[i, 0]) % 3}


def main():
    torch.manual_seed(3)
    config = BertConfig(vocab_size=8000, hidden_size=128, num_hidden_layers=3, num_attention_heads=4,
                        intermediate_size=512, max_position_embeddings=LENGTH, num_labels=3)
    model = BertForSequenceClassification(config)
    paced = Paced()
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out, max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=2e-4, report_to="none",
            logging_steps=20, use_cpu=True, disable_tqdm=True, dataloader_pin_memory=False, ddp_backend="gloo",
            save_strategy="no")
        trainer = Trainer(model=model, args=args, train_dataset=Reviews(STEPS * BATCH), callbacks=[paced])
        trainer.train()
    if trainer.is_world_process_zero():
        paced.pace.report()


if __name__ == "__main__":
    main()
