import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification


class Recipes(Dataset):
    """Recipes as numbers of words, and the kitchen that each comes from."""

    def __init__(self, count=2000, length=20, words=300, kitchens=8):
        self.kitchen = torch.randint(0, kitchens, (count,))
        self.words = torch.randint(0, words, (count, length))
        self.words[:, ::3] = self.kitchen[:, None] + kitchens * torch.randint(0, words // kitchens, (count, 7))

    def __len__(self):
        return len(self.kitchen)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": self.kitchen[index]}


def model(words=300, kitchens=8):
    return BertForSequenceClassification(BertConfig(
        vocab_size=words, hidden_size=64, num_hidden_layers=10, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=24, num_labels=kitchens, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    ))
