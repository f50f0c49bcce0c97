import torch


class Masking:
    """Hides some of the signs, as for BERT: 80% become the mask, 10% another sign, 10% stay."""

    def __init__(self, signs, mask, special=4, share=0.15, seed=0):
        self.signs, self.mask, self.special, self.share = signs, mask, special, share
        self.random = torch.Generator().manual_seed(seed)

    def __call__(self, rows):
        ids = torch.stack([row["input_ids"] for row in rows])
        labels = torch.full_like(ids, -100)
        hidden = (ids >= self.special) & (torch.rand(ids.shape, generator=self.random) < self.share)
        labels[hidden] = ids[hidden]
        dice = torch.rand(ids.shape, generator=self.random)
        others = torch.randint(self.special, self.signs, ids.shape, generator=self.random)
        ids = torch.where(hidden & (dice < 0.8), self.mask, ids)
        ids = torch.where(hidden & (dice >= 0.8) & (dice < 0.9), others, ids)
        return {"input_ids": ids, "labels": labels}
