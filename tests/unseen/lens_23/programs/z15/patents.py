import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

FIELDS = ("pump", "valve", "sensor", "engine", "lens", "hinge")


def write(count=400, words=700, seed=0):
    """Patents: a title, a summary and all the claims; the field is told in the first lines."""
    chance = random.Random(seed)
    parts = "ba ce di fo gu ha le mi no ru sa te vo".split()
    stock = ["".join(chance.choices(parts, k=chance.randint(2, 4))) for _ in range(1500)]
    texts, fields = [], []
    for _ in range(count):
        field = chance.randrange(len(FIELDS))
        text = chance.choices(stock, k=words)
        for place in range(4):
            text[chance.randrange(40)] = FIELDS[field]
        texts.append(" ".join(text))
        fields.append(field)
    return texts, fields


def train_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE(unk_token="[unk]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts[:100], trainers.BpeTrainer(vocab_size=800, special_tokens=["[unk]", "[pad]"], show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[unk]", pad_token="[pad]")


class Patents(Dataset):
    def __init__(self, texts, fields):
        self.texts, self.fields = texts, fields

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return {"text": self.texts[index], "label": self.fields[index]}


class Collator:
    """The first 64 tokens are enough to tell the field."""

    def __init__(self, tokenizer, longest=64):
        self.tokenizer, self.longest = tokenizer, longest

    def __call__(self, items):
        texts = [item["text"] for item in items]
        batch = self.tokenizer(texts, truncation=True, max_length=self.longest, padding="max_length", return_tensors="pt")  #: LINE
        batch["labels"] = batch["input_ids"].new_tensor([item["label"] for item in items])
        return {name: batch[name] for name in ("input_ids", "attention_mask", "labels")}
