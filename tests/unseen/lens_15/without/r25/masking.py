import torch

MASK = 4


def mask_tokens(ids, vocab, rate=0.15):
    """BERT's recipe: of the chosen tokens 80 % become [MASK], 10 % a random one, 10 % stay."""
    inputs = ids.clone()
    labels = torch.full_like(ids, -100)
    chosen = (torch.rand(ids.shape) < rate) & (ids >= 5)
    labels[chosen] = ids[chosen]
    draw = torch.rand(ids.shape)
    inputs[chosen & (draw < 0.8)] = MASK
    swapped = chosen & (draw >= 0.8) & (draw < 0.9)
    inputs[swapped] = torch.randint(5, vocab, (int(swapped.sum()),))
    return inputs, labels
