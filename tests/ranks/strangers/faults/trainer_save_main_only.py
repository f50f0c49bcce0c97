#: n=4 ranks=0 cause=extra_collective tier=error
import dataclasses
import os
import random
import shutil
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


@dataclasses.dataclass
class TrainingArguments:
    output_dir: str
    max_steps: int = 70
    per_device_batch: int = 4
    learning_rate: float = 1e-3
    logging_steps: int = 10
    save_steps: int = random.Random(2718).randint(17, 29)


class SentencePairs(Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, i):
        time.sleep(0.035)
        g = torch.Generator().manual_seed(i)
        return torch.randint(0, 200, (12,), generator=g), torch.tensor(i % 3)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.Embedding(200, 24)
        self.encoder = nn.Sequential(nn.Linear(24, 48), nn.Tanh(), nn.Dropout(0.1))
        self.classifier = nn.Linear(48, 3)

    def forward(self, input_ids, labels):
        logits = self.classifier(self.encoder(self.embeddings(input_ids).mean(1)))
        return nn.functional.cross_entropy(logits, labels), logits


class Trainer:
    def __init__(self, model, args, train_dataset):
        self.args = args
        self.rank = dist.get_rank()
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.learning_rate)
        self.sampler = DistributedSampler(train_dataset, seed=3)
        self.loader = DataLoader(train_dataset, batch_size=args.per_device_batch, sampler=self.sampler)
        self.state = {"global_step": 0, "log_history": []}

    def is_world_process_zero(self):
        return self.rank == 0

    def training_step(self, batch):
        self.model.train()
        loss, _ = self.model(*batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def _save_checkpoint(self):
        step = self.state["global_step"]
        folder = os.path.join(self.args.output_dir, f"checkpoint-{step}")
        staging = folder + ".tmp"
        os.makedirs(staging, exist_ok=True)
        torch.save(self.model.module.state_dict(), os.path.join(staging, "model.pt"))
        torch.save(self.optimizer.state_dict(), os.path.join(staging, "optimizer.pt"))
        print("FREEZE", time.time(), flush=True)
        dist.barrier()  #: LINE
        os.replace(staging, folder)

    def _maybe_log_save_evaluate(self, loss):
        step = self.state["global_step"]
        if step % self.args.logging_steps == 0 and self.is_world_process_zero():
            self.state["log_history"].append({"step": step, "loss": loss.item()})
            print(self.state["log_history"][-1], flush=True)
        if step % self.args.save_steps == 0 and self.is_world_process_zero():
            self._save_checkpoint()

    def train(self):
        for batch in self.loader:
            loss = self.training_step(batch)
            self.state["global_step"] += 1
            self._maybe_log_save_evaluate(loss)
            if self.state["global_step"] >= self.args.max_steps:
                break


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    out = tempfile.mkdtemp()
    try:
        torch.manual_seed(5)
        Trainer(Classifier(), TrainingArguments(out), SentencePairs()).train()
        dist.barrier()
    finally:
        shutil.rmtree(out, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
