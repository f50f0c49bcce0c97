import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

FIELDS = {
    "farm": "cow field tractor harvest milk barn hay seed plough sheep",
    "sea": "deck engine rope harbour cargo watch anchor pilot chart net",
    "school": "class lesson pupil chalk exam term reading maths music sports",
    "kitchen": "oven knife menu stock guest plate sauce pastry roast cellar",
}
FILL = "we look for a person who can work with us and will learn on the job from early to late in a small team".split()


def adverts(count=1000, seed=2):
    """Job adverts and the field of each."""
    chance = random.Random(seed)
    texts, fields = [], []
    for _ in range(count):
        field = chance.randrange(len(FIELDS))
        words = list(FIELDS.values())[field].split()
        text = [chance.choice(words) if chance.random() < 0.2 else chance.choice(FILL) for _ in range(chance.randint(40, 64))]
        texts.append(" ".join(text))
        fields.append(field)
    return texts, fields


def learn_tokens(texts):
    tokens = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["<pad>", "<unk>"], show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", unk_token="<unk>")


class Adverts(Dataset):
    """Tokenized once, before the training; each batch is only filled up to its longest."""

    def __init__(self, texts, fields, tokenizer):
        self.items = tokenizer(texts, truncation=True, max_length=64, return_token_type_ids=False)["input_ids"]
        self.fields = fields

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return {"input_ids": self.items[index], "label": self.fields[index]}
