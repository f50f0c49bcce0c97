import torch


def recipes(count=3000, words=800):
    """Steps of recipes, of all lengths, and how long each takes."""
    lengths = (8 + 110 * torch.rand(count).square()).long().tolist()
    texts = [torch.randint(1, words, (length,)) for length in lengths]
    return [(text, (text.float().mean() / words + len(text) / 118).reshape(1)) for text in texts]


class Batches:
    """The part of one rank, in batches of texts of about the same length, to pad as little as we can."""

    def __init__(self, texts, rank, world, batch=16):
        texts = sorted(texts, key=lambda pair: len(pair[0]))
        self.texts = texts[rank::world]
        self.batch = batch
        self.generator = torch.Generator().manual_seed(5)

    def __iter__(self):
        starts = torch.arange(0, len(self.texts) - self.batch + 1, self.batch)
        for place in torch.randperm(len(starts), generator=self.generator).tolist():
            picked = self.texts[starts[place] : starts[place] + self.batch]
            tokens = torch.nn.utils.rnn.pad_sequence([text for text, _ in picked], batch_first=True)
            yield tokens, torch.stack([span for _, span in picked])
