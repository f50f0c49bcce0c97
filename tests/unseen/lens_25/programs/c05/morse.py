import torch
from torch import nn

SIGNS = "ETIANMSURWDKGOHVFLPJBXCYZQ "


def messages(count=2000, signs=18, samples=12):
    """Messages of a wireless operator as sound, a fixed number of samples a sign, and the text."""
    keys = torch.randn(len(SIGNS), samples)
    text = torch.randint(0, len(SIGNS), (count, signs))
    sound = keys[text].flatten(1)
    return sound + 0.8 * torch.randn_like(sound), text


def to_text(numbers):
    return "".join(SIGNS[number] for number in numbers)


def levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]


def sample_error(scores, text):
    """Character error rate of the first message of the batch: a glance, not a measurement."""
    guess, truth = to_text(scores[0].argmax(-1).tolist()), to_text(text[0].tolist())
    return levenshtein(guess, truth) / len(truth)


class Operator(nn.Module):
    def __init__(self, samples=12, width=144):
        super().__init__()
        self.samples = samples
        self.ear = nn.Linear(samples, width)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.mind = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.hand = nn.Linear(width, len(SIGNS))

    def forward(self, sound):
        return self.hand(self.mind(self.ear(sound.unflatten(1, (-1, self.samples)))))
