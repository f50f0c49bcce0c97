import torch


class Requests(torch.utils.data.Dataset):
    """Short requests to an assistant, each with its intent."""

    def __init__(self, count=1200, words=6000, intents=24):
        g = torch.Generator().manual_seed(0)
        lengths = torch.randint(6, 34, (count,), generator=g).tolist()
        self.rows = []
        for length in lengths:
            intent = int(torch.randint(0, intents, (1,), generator=g))
            tokens = torch.randint(100, words, (length,), generator=g)
            tokens[1:4] = 10 + intent
            self.rows.append((tokens, intent))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        tokens, intent = self.rows[index]
        return {"tokens": tokens, "intent": intent}


class Collate:
    def __init__(self, max_length=64, fill=0):
        self.max_length, self.fill = max_length, fill

    def __call__(self, rows):
        tokens = [row["tokens"][: self.max_length] for row in rows]
        length = self.max_length  #: LINE
        ids = torch.full((len(rows), length), self.fill)
        mask = torch.zeros(len(rows), length, dtype=torch.long)
        for i, row in enumerate(tokens):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([row["intent"] for row in rows])}
