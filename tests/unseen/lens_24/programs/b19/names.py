import random

import torch
from torch import nn
from torch.utils.data import Dataset

SOUNDS = "aeioubdfgklmnprst"
SPELLED = {"f": "ph", "k": "c", "u": "oo", "i": "ee"}
ALPHABET = "_" + "".join(sorted(set(SOUNDS) | set("".join(SPELLED.values()))))


class Names(Dataset):
    """How villages are said, and how they're written; both as letters, filled with _."""

    def __init__(self, count=4000, sounds=10, letters=16):
        dice = random.Random(8)
        said, written = [], []
        for _ in range(count):
            name = "".join(dice.choice(SOUNDS) for _ in range(sounds))
            spelled = "".join(SPELLED.get(sound, sound) for sound in name)[:letters]
            said.append([ALPHABET.index(letter) for letter in name])
            written.append([ALPHABET.index(letter) for letter in spelled.ljust(letters, "_")])
        self.said, self.written = torch.tensor(said), torch.tensor(written)

    def __len__(self):
        return len(self.said)

    def __getitem__(self, index):
        return self.said[index], self.written[index]


class Speller(nn.Module):
    def __init__(self, width=160, letters=16):
        super().__init__()
        self.sounds = nn.Embedding(len(ALPHABET), width)
        self.listen = nn.GRU(width, width, batch_first=True)
        self.slots = nn.Parameter(0.1 * torch.randn(letters, width))
        self.write = nn.GRU(2 * width, width, batch_first=True)
        self.letter = nn.Linear(width, len(ALPHABET))

    def forward(self, said):
        heard = self.listen(self.sounds(said))[0][:, -1:]
        slots = self.slots.expand(len(said), -1, -1)
        return self.letter(self.write(torch.cat([slots, heard.expand_as(slots)], 2))[0])


def edits(one, other):
    """Levenshtein."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one):
        corner, row[0] = row[0], i + 1
        for j, b in enumerate(other):
            corner, row[j + 1] = row[j + 1], min(row[j] + 1, row[j + 1] + 1, corner + (a != b))
    return row[-1]


def misspelt(scores, written):
    wrong = sum(edits(one, other) for one, other in zip(scores.argmax(-1).tolist(), written.tolist()))
    return wrong / written.numel()
