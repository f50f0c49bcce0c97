import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

PARTS = ["ba", "ker", "lo", "min", "ta", "ri", "sel", "ver", "no", "ing", "ed", "ous", "ful", "cra", "pe", "dis"]


def read_reviews(count=800, seed=3):
    rng = random.Random(seed)
    words = ["".join(rng.choices(PARTS, k=rng.randint(2, 5))) for _ in range(1500)]
    texts = [" ".join(rng.choices(words, k=rng.randint(120, 200))) for _ in range(count)]
    return texts, [rng.randint(0, 1) for _ in texts]


class WordPiece:
    def __init__(self, texts):
        pieces = sorted(set("".join(texts)) | set(PARTS))
        self.ids = {piece: i + 1 for i, piece in enumerate(pieces)}
        self.size = len(self.ids) + 1

    def encode(self, text, limit=64):
        ids = []
        for word in text.lower().split():
            start = 0
            while start < len(word):
                end = len(word)
                while word[start:end] not in self.ids:
                    end -= 1
                ids.append(self.ids[word[start:end]])
                start = end
        return ids[:limit]


class Reviews(Dataset):
    def __init__(self, texts, labels, tokenizer):
        self.texts, self.labels = [torch.tensor(tokenizer.encode(text)) for text in texts], labels

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return self.texts[i], self.labels[i]


class Collate:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, batch):
        ids = [text for text, _ in batch]
        return pad_sequence(ids, batch_first=True), torch.tensor([label for _, label in batch])


class Sentiment(nn.Module):
    def __init__(self, vocab, width=128):
        super().__init__()
        self.words = nn.Embedding(vocab, width, padding_idx=0)
        self.places = nn.Embedding(64, width)
        block = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, activation="gelu")
        self.body = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, ids):
        h = self.body(self.words(ids) + self.places.weight[: ids.shape[1]])
        return self.head(h.mean(1))
