import torch
from torch.utils.data import Dataset

END = 0
NOT_COUNTED = -100


class Sagas(Dataset):
    """Sagas of all lengths, one after the other, cut into windows of the same length."""

    def __init__(self, window=64, count=900, letters=512):
        made = torch.Generator().manual_seed(14)
        lengths = torch.randint(60, 400, (count,), generator=made).tolist()
        texts = [torch.randint(1, letters // 4, (length,), generator=made).cumsum(0) % (letters - 1) + 1 for length in lengths]
        stop = torch.tensor([END])
        stream = torch.cat([piece for text in texts for piece in (text, stop)])
        self.window = window
        self.windows = stream.split(window)

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, index):
        return {"input_ids": self.windows[index]}

    def collate(self, items):
        ids = torch.full((len(items), self.window), END)
        labels = torch.full((len(items), self.window), NOT_COUNTED)
        mask = torch.zeros(len(items), self.window, dtype=torch.long)
        for row, item in enumerate(items):
            text = item["input_ids"]
            ids[row, : len(text)] = text
            labels[row, : len(text)] = text
            mask[row, : len(text)] = 1
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}
