import random

import torch

MASK, FIRST, IGNORE = 3, 5, -100


def hide(ids, vocabulary, share=0.15):
    """80 % mask, 10 % another word, 10 % as it was."""
    ids, labels = ids.clone(), torch.full_like(ids, IGNORE)
    rows, columns = ids.shape
    for r in range(rows):
        for c in range(columns):
            if ids[r, c] < FIRST or random.random() >= share:
                continue
            labels[r, c] = ids[r, c]  #: LINE
            luck = random.random()
            if luck < 0.8:
                ids[r, c] = MASK
            elif luck < 0.9:
                ids[r, c] = random.randrange(FIRST, vocabulary)
    return ids, labels
