"""Calls of one line that differ between ranks, in groups in which torch makes calls below Python too. Pure.

[Note: lines that differ]
Where DDP's reducer or a functional collective shares a group with the program, which of the program's calls met which
is not known: nobody counts the others call by call. But a line that every rank goes through hands out the same type,
size and root on all of them. A rank whose last calls at a line are all of one kind, where its peers' are all of
another, differs for good, whatever met: gloo lets types of one size and a short broadcast pass in silence.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from emberward.diagnose import SIZED, ranks_text, short_path
from emberward.events import Collective, CollectiveOp, Group, Lane, LaneKind, Observer, Site, TraceBuilder
from emberward.findings import Certainty, Finding
from emberward.match import check
from emberward.sources.ring import RingView

LAST_CALLS = 4
"""How many calls of a line have to be of one kind."""

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
            if not isinstance(body, Collective) or body.group not in hidden or body.op not in SIZED:
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
    """What `match` says of the line's call, as if it had met once; without a majority nobody is named."""
    builder = TraceBuilder(1 + max(difference.group.ranks), Observer.LIVE)
    lane = Lane(kind=LaneKind.HOST)
    site = replace(difference.site, file=short_path(difference.site.file))
    sides: dict[Args, list[int]] = defaultdict(list)
    for rank, args in difference.args:
        dtype, numel, root = args
        sides[args].append(rank)
        builder.observe(rank)
        body = Collective(op=difference.op, group=difference.group, dtype=dtype, numel=numel, root=root)
        builder.add(rank, lane, body, site=site)
    finding = check(builder.build(), with_cure=False, with_hazards=False).findings[0]
    return replace(
        finding,
        certainty=Certainty.OBSERVED,
        evidence=tuple(f"{ranks_text(ranks)}: {_text(args)}" for args, ranks in sides.items()),
        ruled_out=("a change that reaches ranks one after the other: it was so at two snapshots",),
        next=f"print type, size and root of the tensor at {site.file}:{site.line} on every rank",
    )


def _text(args: Args) -> str:
    dtype, numel, root = args
    return f"{numel} elements of {dtype}" + ("" if root is None else f", root {root}")
