import random

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

THINGS = [f"{colour}_{shape}" for colour in ("red", "grey", "blue", "white", "brown", "black", "green", "pink")
          for shape in ("cup", "hat", "key", "coin", "shoe", "ring", "leaf", "bell", "rope", "lamp")]


def words():
    names = {name: place for place, name in enumerate(["<pad>", "<unk>", "<answer>", "twice", "once", *THINGS])}
    model = Tokenizer(WordLevel(names, unk_token="<unk>"))
    model.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=model, pad_token="<pad>", unk_token="<unk>", additional_special_tokens=["<answer>"])


def riddles(tokenizer, count=1000, length=20):
    """A list of things; the answer is the one that comes twice."""
    dice, rows = random.Random(5), []
    for _ in range(count):
        things = dice.sample(THINGS, length)
        things[dice.randrange(10, length)] = twice = things[dice.randrange(10)]
        rows.append(" ".join(["twice", *things, "<answer>", twice]))
    return [torch.tensor(ids) for ids in tokenizer(rows)["input_ids"]]


class AnswersOnly:
    """Labels for what follows <answer> alone; a thing of the question is sometimes swapped."""

    def __init__(self, tokenizer, swap=0.02):
        self.tokenizer, self.swap = tokenizer, swap

    def __call__(self, rows):
        ids = torch.stack(rows)
        answer = ids == self.tokenizer.convert_tokens_to_ids("<answer>")
        after = answer.cumsum(1) > 0
        swapped = (torch.rand(ids.shape) < self.swap) & ~after
        other = torch.randint(5, len(self.tokenizer), ids.shape)
        return {
            "input_ids": torch.where(swapped, other, ids),
            "attention_mask": (ids != self.tokenizer.pad_token_id).long(),
            "labels": ids.masked_fill(~after | answer, -100),
        }
