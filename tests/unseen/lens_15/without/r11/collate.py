import torch


class Collator:
    def __init__(self, max_length=128, pad=0):
        self.max_length, self.pad = max_length, pad

    def __call__(self, rows):
        texts = [row["input_ids"][:self.max_length] for row in rows]
        width = max(len(text) for text in texts)
        ids = torch.full((len(texts), width), self.pad)
        mask = torch.zeros(len(texts), width, dtype=torch.int64)
        for k, text in enumerate(texts):
            ids[k, :len(text)] = torch.tensor(text)
            mask[k, :len(text)] = 1
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([row["label"] for row in rows])}
