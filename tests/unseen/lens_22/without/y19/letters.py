import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification


class Letters(Dataset):
    """Letters to a newspaper as numbers of words, and the desk that each is for."""

    def __init__(self, count=3000, length=32, words=400, desks=6):
        self.desk = torch.randint(0, desks, (count,))
        self.words = torch.randint(0, words, (count, length))
        self.words[:, ::4] = self.desk[:, None] + desks * torch.randint(0, words // desks, (count, length // 4))

    def __len__(self):
        return len(self.desk)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": self.desk[index], "example": index}


def model(words=400, desks=6):
    return BertForSequenceClassification(BertConfig(
        vocab_size=words, hidden_size=96, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
        max_position_embeddings=40, num_labels=desks, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    ))
