import random

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast


def words(count, seed=0):
    """Made-up words of two to four syllables."""
    rng = random.Random(seed)
    made = {}
    while len(made) < count:
        made["".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(2, 4)))] = None
    return list(made)


def tokenizer(count=1500):
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<unk>", *words(count - 2)])}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(vocabulary, unk_token="<unk>")), pad_token="<pad>", unk_token="<unk>",
    )
