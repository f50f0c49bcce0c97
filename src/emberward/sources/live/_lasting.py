"""Calls of one line that differ between ranks, in groups in which torch makes calls below Python too. Pure.

[Note: lines that differ]
Where DDP's reducer or a functional collective shares a group with the program, which of the program's calls met which
is not known: nobody counts the others call by call. But a line that every rank goes through hands out the same type,
size and root on all of them. A rank whose last calls at a line are all of one kind, where its peers' are all of
another, differs for good, whatever met: gloo lets types of one size and a short broadcast pass in silence.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from emberward.events import Collective, CollectiveOp, Group, Site
from emberward.findings import Cause, Certainty, Finding, Kind
from emberward.sources.dumps import hang_finding, ranks_text, short_path, verb
from emberward.sources.ring import RingView

LAST_CALLS = 4
"""How many calls of a line have to be of one kind."""
_SIZED = frozenset(
    {
        CollectiveOp.ALL_REDUCE,
        CollectiveOp.BROADCAST,
        CollectiveOp.REDUCE,
        CollectiveOp.ALL_GATHER,
        CollectiveOp.REDUCE_SCATTER,
    }
)

Args = tuple[str | None, int | None, int | None]
"""Type, elements and root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineDifference:
    """A line of the program at which ranks make the same call with other arguments, again and again."""

    group: Group
    op: CollectiveOp
    site: Site
    args: tuple[tuple[int, Args], ...]


def lasting_differences(views: Mapping[int, RingView]) -> tuple[LineDifference, ...]:
    """The lines whose last calls differ between the members of a group, all of whom have made them. See the note."""
    lines: dict[tuple[Group, CollectiveOp, Site], dict[int, list[Args]]] = defaultdict(lambda: defaultdict(list))
    for rank, view in views.items():
        hidden = {
            group for group, count in view.groups.items() if (count.sequence or 0) > count.issued + count.p2p_issued
        }
        for event in view.events:
            body = event.body
            if not isinstance(body, Collective) or body.group not in hidden or body.op not in _SIZED:
                continue
            if event.site is not None and event.completed_ns is not None:
                made = (body.dtype, body.numel, body.root)
                lines[(body.group, body.op, event.site)][rank].append(made)
    found = []
    for (group, op, site), by_rank in lines.items():
        last = {rank: made[-LAST_CALLS:] for rank, made in by_rank.items()}
        if set(last) != set(group.ranks) or any(len(made) < LAST_CALLS or len(set(made)) > 1 for made in last.values()):
            continue
        args = {rank: made[0] for rank, made in last.items()}
        if len(set(args.values())) > 1:
            found.append(LineDifference(group=group, op=op, site=site, args=tuple(sorted(args.items()))))
    return tuple(found)


def difference_finding(difference: LineDifference) -> Finding:
    """The error for a line that differs: the majority's arguments are right; without one nobody is named."""
    sides: dict[Args, list[int]] = defaultdict(list)
    for rank, args in difference.args:
        sides[args].append(rank)
    most = max(sides.values(), key=len)
    has_majority = 2 * len(most) > len(difference.args)
    odd = sorted(rank for rank, _ in difference.args if rank not in most) if has_majority else []
    site = f"{short_path(difference.site.file)}:{difference.site.line}"
    what = f"{ranks_text(odd)} {verb(odd, 'makes', 'make')}" if odd else "ranks make"
    return hang_finding(
        "M102",
        f"{what} {difference.op.value} at {site} with another {_what_differs(sides)} than the others, again and again; "
        "nobody notices",
        kind=Kind.MISMATCH,
        cause=_cause(sides),
        certainty=Certainty.OBSERVED,
        ranks=odd,
        waiting=[rank for rank in most if odd],
        site=site if odd else None,
        evidence=[f"{ranks_text(ranks)}: {_text(args)}" for args, ranks in sides.items()],
        ruled_out=("a change that reaches ranks one after the other: it was so at two looks",),
        next_step=f"print type, size and root of the tensor at {site} on every rank",
    )


def _cause(sides: Mapping[Args, list[int]]) -> Cause:
    if len({args[0] for args in sides}) > 1:
        return Cause.DTYPE
    return Cause.SHAPE if len({args[1] for args in sides}) > 1 else Cause.DIFFERENT_ROOT


def _what_differs(sides: Mapping[Args, list[int]]) -> str:
    return {Cause.DTYPE: "type", Cause.SHAPE: "size"}.get(_cause(sides), "root")


def _text(args: Args) -> str:
    dtype, numel, root = args
    return f"{numel} elements of {dtype}" + ("" if root is None else f", root {root}")
