"""Which part of what calls make is read at all. Needs torch.

[Note: rows that nothing reads]
Some calls treat each row by itself: a product with weights, an activation, a norm, views. Of a chain of them, a head
over all positions, those rows alone are needed that are picked of its end: by an index over rows, by a factor of each
row that is zero for most of them, as the gate of an expert is, by a mask of rows that puts a number in the place of
most, or by a loss, which leaves out the rows whose target it ignores. What a value's readers need adds up; who reads it
in another way needs all of it, and so does a value of which no reader was seen. A sum with another value of as many
rows is such a reader: the stream past a block is no head. What a library computes is its own affair, but for products
whose rows the program itself leaves out: it can ask for fewer, as for the logits of the last position.

[Note: weights that nothing reads]
Attention that gives its weights makes them whole, which fused attention does not (torch.nn.MultiheadAttention,
``need_weights``). Where no call is given them in the step, what it takes longer is for nothing: both ways are timed
once on what the program gave, without a graph. Of the backward nothing is counted: that of fused attention computes the
weights again (Dao et al., FlashAttention, NeurIPS 2022).
"""

import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from emberward.sources._picks import storage_of

Where = tuple[tuple[str, int], ...]
_BY_ROWS = frozenset(
    {"linear", "gelu", "relu", "relu_", "leaky_relu", "elu", "silu", "silu_", "mish", "tanh", "sigmoid", "softplus"}
    | {"layer_norm", "rms_norm", "dropout", "softmax", "log_softmax"}
)
_PRODUCTS = frozenset({"matmul", "__matmul__", "mm"})
"""By rows where the second factor is weights, which no such chain has made."""
_WITH_WEIGHTS = frozenset({"add", "__add__", "sub", "__sub__", "mul", "__mul__", "div", "__truediv__"})
"""By rows where the other value is a number, or weights of one row."""
_BY_FACTORS = frozenset({"mul", "__mul__", "__rmul__"})
_BY_MASKS = frozenset({"where", "masked_fill"})
MOST = 0.5
"""Of the factors of rows, zeros from which on the others are picked: of a batch with less padding they mask it."""
_VIEWS = frozenset(
    {"view", "view_as", "reshape", "flatten", "unflatten", "transpose", "permute", "squeeze", "unsqueeze", "contiguous"}
    | {"clone", "detach", "to", "type", "type_as", "float", "double", "half", "bfloat16"}
)
_CUT = _VIEWS | _PRODUCTS | {"linear"}
"""Of a library's, what it makes no more of than it is asked for."""
_PICKS = frozenset({"__getitem__", "select", "narrow", "index_select"})
_LOSSES = frozenset({"cross_entropy", "nll_loss"})
_OF_LOSSES = ("input", "target", "weight", "size_average", "ignore_index")
"""Their first arguments."""
_IGNORED = -100
"""What torch's losses ignore unless they are told otherwise."""
_ATTENTION = "multi_head_attention_forward"


@dataclass(slots=True)
class _Made:
    """A value of a chain: what it was made of, and how much of it its readers need, a share of its rows each."""

    tensor: Callable[[], torch.Tensor | None]
    parent: "_Made | None"
    where: Where
    took_ns: int
    name: str
    has_backward: bool
    is_told: bool
    """Whether what of it is left out is the program's affair: it made it, or it leaves out rows of a product."""
    needed: float | None = None


class RowsWatch:
    """Follows the values of a step. All but `lines` is for the training thread."""

    def __init__(self) -> None:
        self._values: dict[int, _Made] = {}
        self._order: list[_Made] = []
        self._spent: dict[Where, list[int]] = defaultdict(lambda: [0, 0, 0])
        """Nanoseconds spent on rows that nothing read, of these on such that have a backward, and on all calls."""
        self.graph_ns = 0
        """Spent on all that has a backward."""
        self._weights: dict[int, tuple[Where, float]] = {}
        """By storage of weights that nothing has read yet in the step: where they were made, what they took."""
        self._shares: dict[Where, float] = {}
        """Of an attention the share of its time that its weights take."""
        self._makers: set[Where] = set()
        """Places that made such rows; others are losses that computed with them."""

    def note(
        self,
        name: str,
        args: Any,
        named: Any,
        given: Sequence[torch.Tensor],
        made: Any,
        where: Where,
        took_ns: int,
        *,
        is_own: bool,
    ) -> None:
        """A call that gave `made`; `where`: the program's lines around it; `is_own`: no library made it."""
        parents = [each for tensor in given if (each := self._of(tensor)) is not None]
        self._spent[where][2] += took_ns
        several = made if isinstance(made, list | tuple) else (made,)
        has_backward = any(isinstance(each, torch.Tensor) and each.requires_grad for each in several)
        self.graph_ns += took_ns * has_backward
        for tensor in given if self._weights else ():
            self._weights.pop(storage_of(tensor), None)
        if name == _ATTENTION and is_own:
            self._note_attention(args, named, several, where, took_ns)
        if name in _LOSSES and isinstance(made, torch.Tensor):
            read = _read_by_loss(args, named)
            for parent in parents:
                _need(parent, read, is_own=is_own)
            if is_own:
                self._waste(where, took_ns * (1 - read), has_backward=has_backward)
            return
        if name in _PICKS and len(parents) == 1 and isinstance(made, torch.Tensor) and self._of(given[0]) is parents[0]:
            _need(parents[0], _picked(given[0], made), is_own=is_own)
            return
        if len(parents) == 1 and (read := _kept_rows(name, args, given, made)) < 1:
            _need(parents[0], read, is_own=is_own)
            return
        if not isinstance(made, torch.Tensor) or len(parents) > 1 or not _is_by_rows(name, args, given, parents):
            for parent in parents:
                _need(parent, 1.0)
            return
        value = _Made(weakref.ref(made), parents[0] if parents else None, where, took_ns, name, has_backward, is_own)
        self._values[id(made)] = value
        self._order.append(value)

    def _note_attention(self, args: Any, named: Any, made: Sequence[Any], where: Where, took_ns: int) -> None:
        weights = made[1] if len(made) > 1 else None
        if weights is None or not named.get("need_weights", True) or weights.device.type != "cpu":
            return
        if where not in self._shares:
            self._shares[where] = _share_of_weights(args, named)
        self._weights[storage_of(weights)] = where, took_ns * self._shares[where]

    def stepped(self) -> None:
        """A step has ended: settles what was needed of its values."""
        for where, unread_ns in self._weights.values():
            self._waste(where, unread_ns, has_backward=False)
            self._makers.add(where)
        self._weights.clear()
        for value in reversed(self._order):
            needed = 1.0 if value.needed is None else min(value.needed, 1.0)
            if value.where and value.is_told and needed < 1:
                self._waste(value.where, value.took_ns * (1 - needed), has_backward=value.has_backward)
                if value.name not in _VIEWS:
                    self._makers.add(value.where)
            if value.parent is not None:
                _need(value.parent, needed, is_own=value.is_told and value.name in _VIEWS)
        self._order.clear()
        self._values.clear()

    def forget(self) -> None:
        """What was spent so far counts no more."""
        self._spent.clear()
        self.graph_ns = 0

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: of each place that computes rows which nothing reads its nanoseconds for these
        and for all calls of torch's, the share that they have in all that has a backward, and whether it makes them or
        is the loss that leaves them out."""
        for where, (unread_ns, behind_ns, all_ns) in self._spent.items():
            if unread_ns:
                yield {"rows": [where, unread_ns, all_ns, behind_ns / max(self.graph_ns, 1), where in self._makers]}

    def _waste(self, where: Where, unread_ns: float, *, has_backward: bool) -> None:
        if where:
            self._spent[where][0] += int(unread_ns)
            self._spent[where][1] += int(unread_ns) * has_backward

    def _of(self, tensor: torch.Tensor) -> _Made | None:
        value = self._values.get(id(tensor))
        return value if value is not None and value.tensor() is tensor else None


def _share_of_weights(args: Any, named: Any) -> float:
    """What of an attention's time goes where it does not give its weights; the generators are left as they are."""
    took_ns: list[int] = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for need_weights in (True, False) * 2:
            began_ns = time.thread_time_ns()
            torch.nn.functional.multi_head_attention_forward(*args, **{**named, "need_weights": need_weights})
            took_ns.append(time.thread_time_ns() - began_ns)
    return max(1 - took_ns[3] / max(took_ns[2], 1), 0.0)


def _need(value: _Made, share: float, *, is_own: bool = False) -> None:
    """`is_own`: who needs no more is the program."""
    value.needed = (value.needed or 0.0) + share
    value.is_told = value.is_told or (is_own and share < 1 and value.name in _CUT)


def _is_by_rows(name: str, args: Any, given: Sequence[torch.Tensor], parents: Sequence[_Made]) -> bool:
    if name in _VIEWS:
        return bool(parents)
    if name in _PRODUCTS:
        return (
            len(given) == 2 and given[0] is args[0] and given[1].dim() == 2 and (given[1].requires_grad or not parents)
        )
    if name in _WITH_WEIGHTS:
        width = max((each.shape[-1] for each in given if each.dim() > 1), default=1)
        # A factor of each row does not mix them.
        others = [each for each in given if each.dim() > 1 and (each.shape[-1] > 1 or width == 1)]
        return bool(parents) and len(others) <= 1
    return name in _BY_ROWS


def _picked(whole: torch.Tensor, part: torch.Tensor) -> float:
    """The share of its rows that a part has; all of them where it cuts the rows themselves."""
    if not part.dim() or not whole.numel() or part.shape[-1] != whole.shape[-1]:
        return 1.0
    return min(part.numel() / whole.numel(), 1.0)


def _kept_rows(name: str, args: Any, given: Sequence[torch.Tensor], made: Any) -> float:
    """The share of its rows that factors leave, or a mask, one for each row, and most of them none; all of others."""
    if name not in _BY_FACTORS | _BY_MASKS or len(given) != 2 or not isinstance(made, torch.Tensor) or made.dim() < 2:
        return 1.0
    of_rows = [each for each in given if each.dim() > 1 and each.shape[-1] == 1 and made.shape[-1] > 1]
    is_mask = name in _BY_MASKS
    if len(of_rows) != 1 or (is_mask and of_rows[0].dtype != torch.bool):
        return 1.0
    if made.is_cuda and torch.cuda.is_current_stream_capturing():
        return 1.0
    with torch.no_grad():
        share = float(torch.count_nonzero(of_rows[0])) / max(of_rows[0].numel(), 1)
    is_other_way = name == "masked_fill" or (name == "where" and not isinstance(args[1], torch.Tensor))
    share = 1 - share if is_other_way else share
    return share if share <= 1 - MOST else 1.0


def _read_by_loss(args: Any, named: Any) -> float:
    """The share of its rows that a loss of torch's reads."""
    given = dict(zip(_OF_LOSSES, args, strict=False)) | named
    scores, target, ignored = given["input"], given["target"], given.get("ignore_index", _IGNORED)
    if target.is_floating_point() or not target.numel() or scores.dim() < 2:
        return 1.0
    if target.is_cuda and torch.cuda.is_current_stream_capturing():
        return 1.0
    return float((target != ignored).double().mean())
