"""Operations for which torch has another form, which may be faster on this machine. Needs torch.

[Note: other forms]
Attention can be computed in two ways with the same result: as a product, a softmax and a product, whose scores go
through memory at each operation between, or in one operation, `scaled_dot_product_attention`. Which is faster hangs on
the sizes and the processor. That the steps have the first is seen in the compared steps below autograd, by the memory
that goes from one operation into the next; what both take is measured with the same sizes after the job
(`sources.forms`). Scores or weights that something else reads have to be computed.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from emberward.sources._below import Where
from emberward.sources._picks import storage_of
from emberward.sources._values import tensors_in

_MASKS = frozenset({"add", "add_", "masked_fill", "masked_fill_", "where"})
_BETWEEN = _MASKS | {"clone", "copy_", "div", "div_", "mul", "mul_", "_to_copy"}
"""What may lie between the two products, besides the softmax: a scale, a mask, a dropout, another type."""
_SOFTMAX = frozenset({"_softmax", "_safe_softmax"})
_LIKE = re.compile(r"\w+_like|new_\w+")
"""Operations that take a tensor's sizes and none of its numbers."""
MAX_READ = 1 << 22
"""Numbers of a mask that are read."""
_FAR = -1e4
"""What a score with as much added has is no weight."""


class _Scores:
    """What became of a product of queries and keys so far."""

    def __init__(self, queries: torch.Tensor, keys: torch.Tensor, where: Where) -> None:
        self.sizes = [*queries.shape, keys.shape[-1]]
        """Products, queries, width, keys."""
        self.dtype = str(queries.dtype).removeprefix("torch.")
        self.needs_grad = queries.requires_grad or keys.requires_grad
        self.mask, self.dropout, self.width = "none", 0.0, 0
        self.where = where
        self.is_weights = False
        self.is_done = False
        self.is_read_otherwise = False

    def form(self) -> dict[str, Any]:
        """What is computed, as `sources.forms` measures it."""
        products, queries, width, keys = self.sizes
        return {
            "products": products, "queries": queries, "keys": keys, "width": width,
            "values": self.width, "dtype": self.dtype, "mask": self.mask, "dropout": self.dropout,
            "needs_grad": self.needs_grad,
        }  # fmt: skip


class FormsWatch:
    """Follows the operations of the compared steps outside of backwards. All but `lines` is for the training thread."""

    def __init__(self) -> None:
        self._scores: dict[int, _Scores] = {}
        """By storage."""
        self._noise: dict[int, float] = {}
        """Storages of random zeros and ones: the share of zeros."""
        self._attentions: list[_Scores] = []

    def note(self, func: Any, args: Any, named: Any, result: Any, where: Where) -> None:
        """An operation on plain tensors that is no view and of no backward."""
        name = func._schema.name.removeprefix("aten::")
        made = {storage_of(each): each for each in tensors_in(result)}
        given = {storage_of(each): each for each in tensors_in((args, named))}
        if name == "bernoulli_" and len(args) > 1 and isinstance(args[1], float):
            self._noise = {**dict.fromkeys(made, 1.0 - args[1])}
            return
        reads = () if _LIKE.fullmatch(name) else given
        before = [self._scores[storage] for storage in reads if storage in self._scores]
        after = self._after(name, args, before) if len(before) == 1 else None
        if after is None:
            for scores in before:
                scores.is_read_otherwise = True
        if name in ("bmm", "baddbmm") and not before and isinstance(result, torch.Tensor):
            queries, keys = args[-2:]
            after = _Scores(queries, keys, where)
        for storage in made:
            if name != "div_":
                self._noise.pop(storage, None)
            self._scores.pop(storage, None)
            if after is not None and not after.is_done:
                self._scores[storage] = after

    def lines(self, num_steps: int) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: of each place its form, and how often a step has it."""
        seen = [(each.where, each.form()) for each in self._attentions if not each.is_read_otherwise]
        forms = {str(form): form for _, form in seen}
        for (where, key), count in Counter((where, str(form)) for where, form in seen if where).items():
            yield {"form": [where, forms[key], count / num_steps]}

    def _after(self, name: str, args: Any, before: Sequence[_Scores]) -> _Scores | None:
        """The scores that the operation gives on; None where it does something else with them."""
        (scores,) = before
        if name == "bmm" and scores.is_weights and self._scores.get(storage_of(args[0])) is scores:
            scores.is_done, scores.width = True, args[1].shape[-1]
            scores.needs_grad |= args[1].requires_grad
            self._attentions.append(scores)
            return scores
        if scores.is_done:
            return None
        if name in _SOFTMAX and args[1] in (-1, args[0].dim() - 1) and not scores.is_weights:
            scores.is_weights = True
        elif name not in _BETWEEN or not self._is_mask(name, args, scores):
            return None
        return scores

    def _is_mask(self, name: str, args: Any, scores: _Scores) -> bool:
        """Whether what else an operation is given is a scale, a mask of scores or a dropout of weights, and no trained
        number."""
        for each in tensors_in(args):
            if storage_of(each) in self._scores:
                continue
            if each.requires_grad:
                return False
            if storage_of(each) in self._noise and scores.is_weights:
                scores.dropout = self._noise[storage_of(each)]
            elif each.numel() > 1:
                if name not in _MASKS or scores.is_weights:
                    return False
                scores.mask = "causal" if scores.mask != "other" and _is_causal(each) else "other"
        return True


def _is_causal(mask: torch.Tensor) -> bool:
    """Whether a mask leaves to each query the keys up to its own."""
    if mask.dim() < 2 or mask.shape[-1] != mask.shape[-2] or mask.device.type != "cpu":
        return False
    one = mask[(0,) * (mask.dim() - 2)]
    if one.numel() > MAX_READ:
        return False
    is_out = one if one.dtype is torch.bool else one < _FAR
    above = torch.ones_like(is_out, dtype=torch.bool).triu(1)
    return bool(torch.equal(is_out, above) or (one.dtype is torch.bool and torch.equal(~is_out, above)))
