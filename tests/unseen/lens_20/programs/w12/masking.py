import torch


class Masking:
    """Hides some of the articles in a basket; the model has to guess them."""

    def __init__(self, articles, mask, share=0.2, seed=0):
        self.articles, self.mask, self.share = articles, mask, share
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, rows):
        ids = torch.stack(rows)
        hidden = torch.rand(ids.shape, generator=self.generator) < self.share
        labels = ids.masked_fill(~hidden, -100)
        return {"input_ids": ids.masked_fill(hidden, self.mask), "labels": labels}
