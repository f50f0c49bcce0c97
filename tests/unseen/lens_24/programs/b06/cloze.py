import random

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

SYLLABLES = ["ba", "do", "fi", "gu", "ha", "ke", "lo", "mi", "no", "pu", "ra", "se", "ti", "vu", "wo", "za", "cha", "shi", "thu", "ye",
             "bra", "dri", "flo", "gle", "kni", "plu", "sta", "tre", "vro", "ost", "ern"]


def lexicon():
    return [a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES]


def build_tokenizer(words):
    vocabulary = {word: place for place, word in enumerate(["[PAD]", "[UNK]", "[MASK]", *words])}
    model = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    model.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]")


class Lines(Dataset):
    """Lines of sixteen words, in which a word often follows the same one; tokenized once."""

    def __init__(self, tokenizer, words, count=1500, length=16):
        dice = random.Random(0)
        lines = []
        for _ in range(count):
            place, line = dice.randrange(400), []
            for _ in range(length):
                line.append(words[place])
                place = (7 * place + dice.randrange(3)) % 400
            lines.append(" ".join(line))
        self.ids = torch.tensor(tokenizer(lines)["input_ids"])

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return self.ids[index]


class Cloze:
    """Hides words of a batch, and puts a wrong word in the place of a few."""

    def __init__(self, tokenizer, hidden=0.15, wrong=0.02):
        self.tokenizer, self.hidden, self.wrong = tokenizer, hidden, wrong

    def __call__(self, rows):
        vocabulary = self.tokenizer.get_vocab()  #: LINE
        ids = torch.stack(rows)
        chance = torch.rand(ids.shape)
        labels = ids.masked_fill(chance > self.hidden + self.wrong, -100)
        other = torch.randint(3, len(vocabulary), ids.shape)
        shown = torch.where(chance < self.hidden, vocabulary["[MASK]"], torch.where(labels >= 0, other, ids))
        return {"input_ids": shown, "labels": labels}
