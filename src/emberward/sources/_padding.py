"""How much of a batch of tokens is padding that a shorter batch would not have. Needs torch.

[Note: padded columns]
Columns of tokens at the end or the beginning of a batch that are padding in every row are computed and read by nobody.
The padding is what the embedding was told it is, else one number that stands in all of these columns. A length that is
no longer than the next that divides by `BLOCK` has none: matrix products want that. An embedding of a few rows is one
of types.
Where the batch is put together is where the first tensor with so many columns was made that the tokens come from.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from emberward.sources._picks import size_of, storage_of

Where = tuple[tuple[str, int], ...]
BLOCK = 8
"""Lengths that divide by it are asked for in 16 bits (NVIDIA, Matrix Multiplication Background: tensor cores)."""
MAX_TYPES = 16
"""Rows of an embedding of token types, segments or languages."""
MAX_DEPTH = 16
"""Tensors, each made of the one before, that are gone back through."""


class _Maker(NamedTuple):
    """The call that made a tensor of whole numbers, and those that made what it was given."""

    where: Where
    columns: int
    num_bytes: int
    depth: int
    of: "tuple[_Maker, ...]"


class PaddingWatch:
    """Follows the tokens that are embedded. All but `lines` is for the training thread."""

    def __init__(self) -> None:
        self._shares: dict[tuple[Where, tuple[int, ...]], list[float]] = defaultdict(list)
        """By place and shape of the table: of a model whose file is a library's all have one place."""
        self._makers: dict[int, _Maker] = {}
        """By storage."""
        self._made_at: dict[tuple[Where, tuple[int, ...]], Where] = {}

    def note(self, where: Where, args: Any, named: Any) -> None:
        """A call of torch.nn.functional.embedding within these lines of the program."""
        table = tuple((args[1] if len(args) > 1 else named["weight"]).shape)
        share = padded(*args, **named)
        self._shares[where, table].append(share)
        if share > 0 and (made_at := self._put_together(args[0] if args else named["input"])):
            self._made_at[where, table] = made_at

    def note_made(self, where: Where, given: Sequence[torch.Tensor], made: Sequence[torch.Tensor]) -> None:
        """A call within these lines made tensors of what it was given."""
        for each in made:
            if (
                each.dtype in (torch.int64, torch.int32)
                and each.dim()
                and storage_of(each) not in map(storage_of, given)
            ):
                of = [maker for part in given if (maker := self._maker_of(part)) is not None]
                of = [maker for maker in of if maker.depth < MAX_DEPTH]
                depth = 1 + max((maker.depth for maker in of), default=0)
                maker = _Maker(where, int(each.shape[-1]), size_of(each), depth, tuple(of))
                self._makers[storage_of(each)] = maker

    def _maker_of(self, tensor: torch.Tensor) -> _Maker | None:
        maker = self._makers.get(storage_of(tensor))
        return maker if maker is not None and maker.num_bytes == size_of(tensor) else None

    def _put_together(self, tokens: torch.Tensor) -> Where:
        """The lines at which tokens had as many columns first; empty where that was not seen."""
        maker = self._maker_of(tokens)
        while maker is not None and (wide := next((of for of in maker.of if of.columns >= tokens.shape[-1]), None)):
            maker = wide
        return () if maker is None else maker.where

    def stepped(self) -> None:
        """A step has ended."""

    def forget(self) -> None:
        """What was seen so far counts no more."""
        self._shares.clear()
        self._made_at.clear()

    def stop(self) -> None:
        """Nothing is followed any more."""
        self._makers.clear()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: of each place with padding its lines, the share of it, and the lines around
        what put the tokens together."""
        for (where, table), shares in self._shares.items():
            if any(shares):
                yield {"padded": [where, sum(shares) / len(shares), self._made_at.get((where, table), ())]}


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
    return (length - needed) / length if length > -(-needed // BLOCK) * BLOCK else 0.0
