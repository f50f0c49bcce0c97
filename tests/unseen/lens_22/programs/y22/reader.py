from torch import nn


class Reader(nn.Module):
    def __init__(self, words=800, width=128, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, heads, 3 * width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.out = nn.Linear(width, 1)

    def forward(self, tokens):
        absent = tokens.eq(0)
        x = self.body(self.embed(tokens), src_key_padding_mask=absent)
        kept = x.masked_fill(absent.unsqueeze(2), 0).sum(1) / (~absent).sum(1, keepdim=True)
        return self.out(kept)
