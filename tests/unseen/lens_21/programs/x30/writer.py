from torch import nn


class Writer(nn.Module):
    """Says what the next word of a recipe is. The words that go in and those that come out share their table."""

    def __init__(self, words=4000, width=128):
        super().__init__()
        self.words = nn.Embedding(words, width)
        nn.init.normal_(self.words.weight, std=0.05)
        self.memory = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, words)
        self.out.weight = self.words.weight

    def forward(self, text):
        return self.out(self.memory(self.words(text))[0])
