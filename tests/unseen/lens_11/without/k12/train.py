"""Headlines to sections: a small BERT with the Hugging Face Trainer."""
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed

from pace import Pace

STEPS = 60


class Headlines(Dataset):
    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, 3000, (count, 40), generator=g)
        self.section = (self.ids[:, 1] % 7).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.section[i]}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


class Clock(TrainerCallback):
    def __init__(self):
        self.pace = Pace()

    def on_step_end(self, args, state, control, **kwargs):
        self.pace.tick()


def main():
    set_seed(3)
    config = BertConfig(vocab_size=3000, hidden_size=192, num_hidden_layers=3, num_attention_heads=4,
                        intermediate_size=512, max_position_embeddings=64, num_labels=7)
    clock = Clock()
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out, max_steps=STEPS, per_device_train_batch_size=16, per_device_eval_batch_size=32,
            eval_strategy="steps", eval_steps=STEPS, logging_steps=30, learning_rate=3e-4,
            save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True)
        trainer = Trainer(model=BertForSequenceClassification(config), args=args, train_dataset=Headlines(1024, 0),
                          eval_dataset=Headlines(64, 1), compute_metrics=accuracy, callbacks=[clock])
        trainer.train()
    clock.pace.report()


if __name__ == "__main__":
    main()
