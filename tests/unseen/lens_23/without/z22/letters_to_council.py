import random

from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

TOPICS = ("road", "noise", "park", "waste", "water")
FILLER = [f"word{place}" for place in range(1200)]


def tokenizer():
    vocabulary = {word: place for place, word in enumerate(["[PAD]", "[UNK]", "[CLS]", *TOPICS, *FILLER])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]")


class Letters(Dataset):
    """Letters to the town council, and which office has to answer."""

    def __init__(self, words, count=1500):
        chance = random.Random(3)
        texts, self.office = [], []
        for _ in range(count):
            topic = chance.randrange(len(TOPICS))
            body = chance.choices(FILLER, k=chance.randint(14, 70)) + [TOPICS[topic]] * 3
            chance.shuffle(body)
            texts.append("[CLS] " + " ".join(body))
            self.office.append(topic)
        self.ids = words(texts, add_special_tokens=False)["input_ids"]

    def __len__(self):
        return len(self.office)

    def __getitem__(self, place):
        return {"input_ids": self.ids[place], "labels": self.office[place]}
