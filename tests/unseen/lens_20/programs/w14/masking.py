import random

import torch


class Masking:
    """Hides some of the signs, as for BERT: 80% become the mask, 10% another sign, 10% stay."""

    def __init__(self, signs, mask, special=4, share=0.15, seed=0):
        self.signs, self.mask, self.special, self.share = signs, mask, special, share
        self.random = random.Random(seed)

    def __call__(self, rows):
        ids = torch.stack([row["input_ids"] for row in rows])
        labels = torch.full_like(ids, -100)
        for row in range(ids.shape[0]):
            for place in range(ids.shape[1]):
                if ids[row, place] < self.special or self.random.random() > self.share:  #: LINE
                    continue
                labels[row, place] = ids[row, place]
                dice = self.random.random()
                if dice < 0.8:
                    ids[row, place] = self.mask
                elif dice < 0.9:
                    ids[row, place] = self.random.randrange(self.special, self.signs)
        return {"input_ids": ids, "labels": labels}
