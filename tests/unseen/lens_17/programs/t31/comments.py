import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence


class Comments:
    """Comments of very different length, batched with others of about the same."""

    def __init__(self, count=1600, words=8000, batch=24):
        g = torch.Generator().manual_seed(0)
        lengths = torch.randint(24, 72, (count,), generator=g).sort().values.tolist()
        self.texts = [torch.randint(1, words, (n,), generator=g) for n in lengths]
        self.rude = [float((text < words // 10).sum() > len(text) // 10) for text in self.texts]
        self.groups = torch.arange(count // batch * batch).view(-1, batch)
        self.order = self.groups[torch.randperm(len(self.groups), generator=g)]

    def __getitem__(self, index):
        rows = self.order[index % len(self.order)].tolist()
        tokens = pad_sequence([self.texts[i] for i in rows], batch_first=True)
        tokens = nn.functional.pad(tokens, (0, -tokens.shape[1] % 4))
        return tokens, torch.tensor([self.rude[i] for i in rows])


class Judge(nn.Module):
    def __init__(self, words=8000, width=112):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(width, width, k, padding=k // 2) for k in (3, 5, 7))
        self.out = nn.Linear(3 * width, 1)

    def forward(self, tokens):
        h = self.words(tokens).transpose(1, 2)
        return self.out(torch.cat([conv(h).relu().amax(2) for conv in self.convs], 1)).squeeze(1)
