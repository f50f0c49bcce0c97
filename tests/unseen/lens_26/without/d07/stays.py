import random

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in ("a", "ei", "o", "u", "in")]


def guests(count=1200, seed=0):
    """What guests wrote about a hotel, and their stars."""
    chance = random.Random(seed)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(3000)]
    good, bad = words[:50], words[50:100]
    texts, stars = [], []
    for _ in range(count):
        star = chance.randrange(2)
        text = chance.choices(words, k=chance.randint(150, 350))
        for at in range(0, len(text), 9):
            text[at] = chance.choice(good if star else bad)
        texts.append(" ".join(text) + ".")
        stars.append(star)
    return texts, stars


def learn_tokens(texts, size=1500):
    tokens = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokens.normalizer = normalizers.BertNormalizer()
    tokens.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokens.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


class Stays(Dataset):
    def __init__(self, texts, stars, tokenizer, length):
        tokens = tokenizer(texts, truncation=True, max_length=length)
        self.tokens = [{key: column[at] for key, column in tokens.items()} for at in range(len(texts))]
        self.stars = stars

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"tokens": self.tokens[index], "label": self.stars[index]}
