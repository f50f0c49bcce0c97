import torch

MASK, FIRST, IGNORE = 3, 5, -100


def hide(ids, vocabulary, share=0.15):
    """80 % mask, 10 % another word, 10 % as it was."""
    chosen = (torch.rand(ids.shape) < share) & (ids >= FIRST)
    labels = torch.where(chosen, ids, IGNORE)
    luck = torch.rand(ids.shape)
    other = torch.randint(FIRST, vocabulary, ids.shape)
    ids = torch.where(chosen & (luck < 0.8), MASK, ids)
    return torch.where(chosen & (luck >= 0.8) & (luck < 0.9), other, ids), labels
