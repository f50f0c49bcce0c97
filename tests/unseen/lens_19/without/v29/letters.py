import random

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import DataCollatorWithPadding, PreTrainedTokenizerFast

LONGEST = 96


def tokenizer(words):
    vocabulary = {"[PAD]": 0, "[UNK]": 1, **{f"w{i}": i for i in range(2, words)}}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(vocabulary, unk_token="[UNK]")),
        pad_token="[PAD]", unk_token="[UNK]", model_max_length=LONGEST,
    )


def letters(count, words, seed=0):
    """Letters to an office, already as numbers, of some 20 to 64 words; one in a thousand is longer."""
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        length = LONGEST if i % 1000 == 999 else rng.randint(20, 64)
        ids = [rng.randrange(2, words) for _ in range(length)]
        rows.append({"input_ids": ids, "attention_mask": [1] * length, "labels": ids[0] % 6})
    return rows


def collator(tok):
    return DataCollatorWithPadding(tok, padding="longest", max_length=LONGEST)
