"""HF Trainer: a small GPT-2 on packed documents; batches that can't be used must not stop a run of three weeks."""
import os
import random
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class NoValidAnchors(RuntimeError):
    pass


class Documents(torch.utils.data.Dataset):
    def __init__(self, count=4000, context=48):
        rng = random.Random(3)
        self.rows = []
        for i in range(count):
            start = rng.randint(0, 90)
            ids = [(start + k * rng.choice((1, 1, 2))) % 120 + 4 for k in range(context)]
            used = rng.randint(context // 2, context)
            if 712 <= i < 720:  # scraped pages with nothing but boilerplate
                used = 0
            self.rows.append((ids, used))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, used = self.rows[i]
        labels = [t if k < used else -100 for k, t in enumerate(ids)]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels)}


class AnchorTrainer(Trainer):
    skipped = 0

    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        if (inputs["labels"] != -100).sum() == 0:
            raise NoValidAnchors("no label in this batch")
        out = model(**inputs)
        return (out.loss, out) if return_outputs else out.loss

    def training_step(self, model, inputs, num_items_in_batch=None):
        try:
            return super().training_step(model, inputs, num_items_in_batch)
        except NoValidAnchors:
            self.skipped += 1  #: LINE
            return torch.zeros((), device=self.args.device)  #: LINE


def main():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=128, n_positions=48, n_embd=64, n_layer=2, n_head=4, resid_pdrop=0.0, attn_pdrop=0.0, embd_pdrop=0.0)
    args = TrainingArguments(
        output_dir=os.path.join(tempfile.gettempdir(), f"anchors-{os.getppid()}"),
        per_device_train_batch_size=8,
        max_steps=240,
        learning_rate=1e-3,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        ddp_find_unused_parameters=False,
        accelerator_config={"dispatch_batches": False, "split_batches": False},
    )
    trainer = AnchorTrainer(model=GPT2LMHeadModel(config), args=args, train_dataset=Documents())
    trainer.train()
    print("skipped", trainer.skipped, flush=True)


if __name__ == "__main__":
    main()
