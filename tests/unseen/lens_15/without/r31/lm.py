from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocab, dim=192, width=256):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, width, num_layers=1, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(width, vocab)

    def forward(self, ids):
        h, _ = self.rnn(self.embed(ids))
        return self.out(self.drop(h))
