"""One token from logits."""

import torch
from torch import Tensor


def draw_token(logits_V: Tensor, temperature: float, top_k: int | None, generator: torch.Generator) -> Tensor:
    """One token drawn from the softmax of the logits over the temperature, as `Engine.continue_tokens` says."""
    if temperature == 0:
        return logits_V.argmax()
    if top_k is not None and top_k < logits_V.numel():
        least = torch.topk(logits_V, top_k).values[-1]
        logits_V = logits_V.masked_fill(logits_V < least, float("-inf"))
    return torch.multinomial(torch.softmax(logits_V / temperature, dim=-1), 1, generator=generator)[0]
