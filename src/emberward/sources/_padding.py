"""How much of a batch of tokens is padding that a shorter batch would not have. Needs torch.

[Note: padded columns]
Columns of tokens at the end or the beginning of a batch that are padding in every row are computed and read by nobody.
The padding is what the embedding was told it is, else one number that stands in all of these columns. What a length
that divides by `BLOCK` needs is none: matrix products want that. An embedding of a few rows is one of types.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch

Where = tuple[tuple[str, int], ...]
BLOCK = 8
"""Lengths that divide by it are asked for in 16 bits (NVIDIA, Matrix Multiplication Background: tensor cores)."""
MAX_TYPES = 16
"""Rows of an embedding of token types, segments or languages."""


class PaddingWatch:
    """Follows the tokens that are embedded. All but `lines` is for the training thread."""

    def __init__(self) -> None:
        self._shares: dict[tuple[Where, tuple[int, ...]], list[float]] = defaultdict(list)
        """By place and shape of the table: of a model whose file is a library's all have one place."""

    def note(self, where: Where, args: Any, named: Any) -> None:
        """A call of torch.nn.functional.embedding within these lines of the program."""
        table = tuple((args[1] if len(args) > 1 else named["weight"]).shape)
        self._shares[where, table].append(padded(*args, **named))

    def stepped(self) -> None:
        """A step has ended."""

    def forget(self) -> None:
        """What was seen so far counts no more."""
        self._shares.clear()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: of each place with padding its lines, and the share of it."""
        for (where, _), shares in self._shares.items():
            if any(shares):
                yield {"padded": [where, sum(shares) / len(shares)]}


def padded(tokens: Any, weight: Any, padding_idx: int | None = None, *args: Any, **named: Any) -> float:
    """The share of the columns that need not be there. `tokens`: as torch.nn.functional.embedding is given them."""
    del args, named
    is_told = padding_idx is not None and padding_idx >= 0
    if tokens.dim() != 2 or not tokens.numel() or weight.shape[0] <= MAX_TYPES or (len(tokens) < 2 and not is_told):
        return 0.0
    if tokens.is_cuda and torch.cuda.is_current_stream_capturing():
        return 0.0
    tokens = tokens.cpu()
    used = (tokens != (padding_idx if is_told else tokens[0, -1])).any(0).nonzero().flatten().tolist()
    if not used:
        return 0.0
    length = int(tokens.shape[1])
    # What nobody has called padding may stand at the beginning for something else.
    needed = used[-1] + 1 - (used[0] if is_told else 0)
    return float(max(length - -(-needed // BLOCK) * BLOCK, 0) / length)
