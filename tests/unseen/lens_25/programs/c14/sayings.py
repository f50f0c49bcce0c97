import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

LANDS = 5


def collect(count=1500, seed=12):
    """Short sayings, and the land each comes from."""
    dice = random.Random(seed)
    sounds = ["fa", "gre", "lo", "mi", "sto", "ne", "wi", "ru", "ca", "hy", "ter", "ing"]
    words = ["".join(dice.choices(sounds, k=dice.randint(2, 4))) for _ in range(600)]
    rows = []
    for _ in range(count):
        land = dice.randrange(LANDS)
        chosen = dice.choices(words[80 * land:80 * land + 200], k=dice.randint(6, 9))
        rows.append({"text": " ".join(chosen), "land": land})
    return rows


def tokenizer_of(rows, size=500):
    tokenizer = Tokenizer(models.BPE(unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator([row["text"] for row in rows[:400]], trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<pad>", "?"], show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="?")


class Collate:
    """Splits words another way each time (BPE dropout), which keeps a small model from learning by heart."""

    def __init__(self, tokenizer, dropout=0.1, length=32):
        self.tokenizer, self.length = tokenizer, length
        self.tokenizer.backend_tokenizer.model.dropout = dropout

    def __call__(self, rows):
        batch = self.tokenizer([row["text"] for row in rows], truncation=True, max_length=self.length,
                               padding="max_length", return_tensors="pt")
        batch["labels"] = batch["input_ids"].new_tensor([row["land"] for row in rows])
        return batch
