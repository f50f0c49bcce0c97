import torch
from torch import nn


class Captioner(nn.Module):
    def __init__(self, vocab=400, d=192):
        super().__init__()
        self.look = nn.Linear(256, d)
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.GRU(d, d, 2, batch_first=True)
        self.word = nn.Linear(d, vocab)

    def forward(self, picture, words):
        h0 = self.look(picture).tanh().expand(2, -1, -1).contiguous()
        return self.word(self.rnn(self.emb(words), h0)[0])

    @torch.no_grad()
    def tell(self, picture, length=24):
        """Beam of eight, for each of the pictures."""
        picture = picture.repeat_interleave(8, 0)
        h = self.look(picture).tanh().expand(2, -1, -1).contiguous()
        w = torch.zeros(len(picture), 1, dtype=torch.long)
        said = []
        for _ in range(length):
            y, h = self.rnn(self.emb(w), h)
            w = torch.multinomial(self.word(y[:, -1]).softmax(-1), 1)
            said.append(w)
        return torch.cat(said, 1)
