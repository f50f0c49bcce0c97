"""Trainer subclass which stores generated samples at every evaluation."""
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from transformers import Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(0, 40, (n, 9), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i, :8], "labels": self.ids[i, 1:]}


class TinyLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(40, 24)
        self.gru = nn.GRU(24, 24, batch_first=True)
        self.out = nn.Linear(24, 40)

    def forward(self, input_ids, labels=None):
        h, _ = self.gru(self.emb(input_ids))
        logits = self.out(h)
        if labels is None:
            return {"logits": logits}
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


class SamplingTrainer(Trainer):
    def evaluate(self, *a, **kw):
        metrics = super().evaluate(*a, **kw)
        if self.is_world_process_zero():
            self.sample()
        return metrics

    @torch.no_grad()
    def sample(self, n=3):
        ids = torch.zeros(n, 1, dtype=torch.long)
        for _ in range(6):
            logits = self.model(ids)["logits"][:, -1]
            ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
        rows = [torch.zeros_like(ids) for _ in range(self.args.world_size)]
        dist.all_gather(rows, ids)  #: LINE
        print("samples", rows[0].tolist(), flush=True)


def main():
    args = TrainingArguments(
        output_dir=os.path.join(tempfile.gettempdir(), "hf_samples"), per_device_train_batch_size=8,
        max_steps=40, eval_strategy="steps", eval_steps=15, logging_steps=5, save_strategy="no",
        report_to=[], use_cpu=True, ddp_backend="gloo", disable_tqdm=True, dataloader_pin_memory=False,
    )
    SamplingTrainer(model=TinyLM(), args=args, train_dataset=Rows(400, 0), eval_dataset=Rows(48, 1)).train()
    print("finished", args.process_index)


if __name__ == "__main__":
    main()
