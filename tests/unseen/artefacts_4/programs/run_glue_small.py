"""Sentence pair classification with the Hugging Face Trainer."""
import os

import flightdump  # noqa: F401
import torch
from torch.utils.data import Dataset
from transformers import (BertConfig, BertForSequenceClassification, Trainer,
                          TrainerCallback, TrainingArguments)


class Pairs(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, 300, (n, 24), generator=g)
        self.labels = (self.ids[:, 1] > self.ids[:, 13]).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


class EvaluateEachEpoch(TrainerCallback):
    """Report the dev accuracy after every epoch, from the main process only."""

    def __init__(self, dev):
        self.dev = dev
        self.trainer = None

    def on_epoch_end(self, args, state, control, **kwargs):
        if not state.is_world_process_zero:
            return
        metrics = self.trainer.evaluate(self.dev)
        print(f"epoch {state.epoch:.0f} dev accuracy {metrics['eval_accuracy']:.3f}", flush=True)


def accuracy(pred):
    return {"accuracy": float((pred.predictions.argmax(-1) == pred.label_ids).mean())}


def main():
    torch.manual_seed(0)
    config = BertConfig(vocab_size=300, hidden_size=32, num_hidden_layers=2,
                        num_attention_heads=2, intermediate_size=64,
                        max_position_embeddings=32)
    model = BertForSequenceClassification(config)
    args = TrainingArguments(
        output_dir=os.environ.get("OUT_DIR", "out"),
        use_cpu=True,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=32,
        num_train_epochs=3,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        average_tokens_across_devices=False,
    )
    callback = EvaluateEachEpoch(Pairs(256, 2))
    trainer = Trainer(model=model, args=args, train_dataset=Pairs(960, 1),
                      compute_metrics=accuracy, callbacks=[callback])
    callback.trainer = trainer
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
