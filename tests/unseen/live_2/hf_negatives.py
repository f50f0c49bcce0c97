"""Hugging Face Trainer with a contrastive loss whose negatives come from all ranks."""
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Pairs(Dataset):
    def __init__(self, n=960):
        g = torch.Generator().manual_seed(4)
        self.a = torch.randint(1, 3000, (n, 16), generator=g)
        self.b = self.a.roll(3, 1)
        self.b[707] = 0  # an empty second text

    def __len__(self):
        return len(self.a)

    def __getitem__(self, i):
        return {"a": self.a[i], "b": self.b[i]}


def collate(rows):
    rows = [r for r in rows if r["b"].any()]  # the tokenizer gives only padding for empty texts
    return {k: torch.stack([r[k] for r in rows]) for k in ("a", "b")}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(3000, 64)
        self.mlp = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

    def forward(self, a, b):
        return F.normalize(self.mlp(self.emb(a)), dim=-1), F.normalize(self.mlp(self.emb(b)), dim=-1)


class ContrastiveTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        za, zb = model(**inputs)
        pool = [torch.empty_like(zb) for _ in range(dist.get_world_size())]
        dist.all_gather(pool, zb.detach().contiguous())  #: LINE
        pool[dist.get_rank()] = zb
        keys = torch.cat(pool)
        target = torch.arange(len(za)) + sum(len(p) for p in pool[:dist.get_rank()])
        loss = F.cross_entropy(za @ keys.t() / 0.1, target)
        return (loss, za) if return_outputs else loss


class Pace(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        time.sleep(0.06)
        if state.is_world_process_zero and state.global_step % 10 == 0:
            print("step", state.global_step, flush=True)


def main():
    args = TrainingArguments(output_dir="/tmp/hf_negatives_out", per_device_train_batch_size=8, max_steps=60,
                             learning_rate=1e-3, report_to=[], save_strategy="no", logging_strategy="no",
                             disable_tqdm=True, use_cpu=True, remove_unused_columns=False, seed=11,
                             ddp_find_unused_parameters=False, accelerator_config={"split_batches": False})
    torch.manual_seed(2)
    ContrastiveTrainer(model=Encoder(), args=args, train_dataset=Pairs(), data_collator=collate,
                       callbacks=[Pace()]).train()


if __name__ == "__main__":
    main()
