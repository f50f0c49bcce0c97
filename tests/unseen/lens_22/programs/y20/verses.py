import torch
from torch.utils.data import Dataset
from transformers import DistilBertConfig, DistilBertForSequenceClassification


class Verses(Dataset):
    """Verses as numbers of syllables, and the metre of each."""

    def __init__(self, count, length=36, signs=60, metres=5):
        self.metre = torch.randint(0, metres, (count,))
        beat = (torch.arange(length) % (self.metre[:, None] + 2) == 0).long()
        self.verses = 1 + torch.randint(0, signs // 2 - 1, (count, length)) + beat * (signs // 2 - 1)

    def __len__(self):
        return len(self.verses)

    def __getitem__(self, index):
        return {"input_ids": self.verses[index], "labels": self.metre[index]}


def model(signs=60, metres=5):
    return DistilBertForSequenceClassification(DistilBertConfig(
        vocab_size=signs, dim=96, hidden_dim=256, n_layers=3, n_heads=4, max_position_embeddings=40,
        num_labels=metres, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.1,
    ))


def right(prediction):
    return {"right": float((prediction.predictions.argmax(1) == prediction.label_ids).mean())}
