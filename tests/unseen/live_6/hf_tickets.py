import json
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

QUEUES = {"billing": 0, "network": 1, "hardware": 2, "other": 3}


def export(path, n=3000):
    """What the help desk sends us every week."""
    g = torch.Generator().manual_seed(17)
    with open(path, "w") as f:
        for i in range(n):
            words = torch.randint(10, 500, (20,), generator=g).tolist()
            queue = list(QUEUES)[sum(words) % 4]
            row = {"id": i, "tokens": words, "queue": queue}
            if i == 2391:
                row["queue"] = "Billing "
            f.write(json.dumps(row) + "\n")


class Tickets(Dataset):
    def __init__(self, path):
        self.lines = open(path).read().splitlines()

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        row = json.loads(self.lines[i])
        return row


def collate(rows):
    ids = torch.tensor([[2] + r["tokens"] for r in rows])
    labels = torch.tensor([QUEUES[r["queue"]] for r in rows])  #: LINE
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def main():
    path = tempfile.mkdtemp() + "/tickets.jsonl"
    export(path)
    torch.manual_seed(1)
    model = BertForSequenceClassification(BertConfig(vocab_size=500, hidden_size=48, num_hidden_layers=2, num_attention_heads=2,
                                                     intermediate_size=96, max_position_embeddings=32, num_labels=4))
    args = TrainingArguments(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=6, num_train_epochs=3, learning_rate=1e-3,
                             logging_steps=20, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
                             remove_unused_columns=False, seed=3)
    Trainer(model=model, args=args, train_dataset=Tickets(path), data_collator=collate).train()


if __name__ == "__main__":
    main()
