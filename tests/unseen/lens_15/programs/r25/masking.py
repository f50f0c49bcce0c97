import random

import torch

MASK = 4


def mask_tokens(ids, vocab, rate=0.15):
    """BERT's recipe: of the chosen tokens 80 % become [MASK], 10 % a random one, 10 % stay."""
    inputs = ids.clone()
    labels = torch.full_like(ids, -100)
    for row in range(ids.shape[0]):
        for column in range(ids.shape[1]):
            if ids[row, column] < 5 or random.random() >= rate:  #: LINE
                continue
            labels[row, column] = ids[row, column]
            draw = random.random()
            if draw < 0.8:
                inputs[row, column] = MASK
            elif draw < 0.9:
                inputs[row, column] = random.randrange(5, vocab)
    return inputs, labels
