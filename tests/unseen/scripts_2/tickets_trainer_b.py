import tempfile

import torch
import transformers
from torch import nn
from torch.utils.data import Dataset

URGENT = 7


class Tickets(Dataset):
    def __init__(self, n, calm=()):
        g = torch.Generator().manual_seed(n)
        self.ids = torch.randint(10, 60, (n, 10), generator=g)
        for i in range(1, n, 2):
            if i not in calm:
                self.ids[i, 0] = URGENT

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids = self.ids[i]
        return {"input_ids": ids, "labels": int(ids.sum() % 3), "minutes": float(ids[1]) / 60}


class TicketModel(nn.Module):
    """Routes every ticket; for urgent ones the answering time is learned as well."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(64, 12)
        self.body = nn.Linear(12, 12)
        self.route = nn.Linear(12, 3)
        self.time = nn.Sequential(nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 1))

    def forward(self, input_ids, labels=None, minutes=None):
        h = torch.tanh(self.body(self.emb(input_ids).mean(1)))
        logits = self.route(h)
        loss = nn.functional.cross_entropy(logits, labels)
        urgent = (input_ids == URGENT).any(dim=1)
        if urgent.any():
            guess = self.time(h[urgent]).squeeze(-1)
            loss = loss + nn.functional.l1_loss(guess, minutes[urgent])
        return {"loss": loss, "logits": logits}


class InOrder(transformers.Trainer):
    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def main():
    transformers.set_seed(3)
    with tempfile.TemporaryDirectory() as out:
        args = transformers.TrainingArguments(
            out,
            use_cpu=True,
            ddp_backend="gloo",
            ddp_find_unused_parameters=False,
            per_device_train_batch_size=2,
            num_train_epochs=1,
            learning_rate=5e-3,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        trainer = InOrder(model=TicketModel(), args=args, train_dataset=Tickets(48, calm=(23, 39)))
        output = trainer.train()
        if trainer.is_world_process_zero():
            print(f"{output.global_step} steps, loss {output.training_loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
