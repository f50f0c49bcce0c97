"""What is wrong where members of a group meet: which calls differ, whose, and by what that is known."""

from collections.abc import Callable
from dataclasses import dataclass

from emberward.events import Collective, Event, Site, is_split
from emberward.findings import Cause
from emberward.match._align import Departure
from emberward.match._table import Party

Signature = tuple[str, str | None, int | None, int | None, str | None, tuple[int, ...] | None]
"""(op, dtype, numel, root, reduce op, sizes of the tensors) as far as they must agree."""


@dataclass(frozen=True, slots=True)
class OddSide:
    """Which of two sides is the odd one, and by what: the program's text, or what the ranks executed.

    `site`: the line at which it decided so, where that is known.
    """

    is_first: bool
    cause: Cause
    why: str
    site: str | None = None


TieBreak = Callable[[Site, Site | None], OddSide | None]
"""Which of two lines whose calls meet is the odd one; None when the text does not tell.

The second line is None when that side's program has ended.
"""


@dataclass(frozen=True, slots=True)
class CallFault:
    """What is wrong in one meeting: `odd_ranks` leave what the others do at call `departure.index`.

    `odd_party` and `reference_party` hold the calls; `is_tied` when nothing tells which side is wrong.
    `broken_by`: what tells it where no majority does.
    """

    meeting: int
    departure: Departure
    odd_ranks: tuple[int, ...]
    other_ranks: tuple[int, ...]
    odd_party: Party
    reference_party: Party
    is_tied: bool
    is_open_end: bool
    broken_by: OddSide | None = None


def signature(event: Event) -> Signature:
    """What must agree between calls that meet."""
    body = event.body
    if not isinstance(body, Collective):
        return (type(body).__name__, None, None, None, None, None)
    # Where the parts may differ, `_splits.py` compares what each member gives with what each other one expects.
    numel = None if is_split(body) else body.numel
    reduce_op = None if body.reduce_op is None else body.reduce_op.value
    return (body.op.value, body.dtype, numel, body.root, reduce_op, body.parts)
