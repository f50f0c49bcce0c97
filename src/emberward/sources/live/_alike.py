"""Whether the calls that ranks made can hold anything for the judge of calls that met: mostly they are equal. Pure.

Equal calls of equal lines and steps, k by k of each group, are no mismatch and no shift; sends and receives that agree
in type and size are none either. To see that costs a tenth of what it costs to judge the calls.
"""

from collections.abc import Mapping
from typing import Any

from emberward.events import Barrier, Collective, Recv, Send
from emberward.sources.ring import RingView


def are_alike(views: Mapping[int, RingView]) -> bool:
    """Whether all calls that met are equal as far as they are seen from more than one rank. Such a job is not judged.

    False where only the judge can tell: calls differ (which may be right, as in a gather of uneven parts), or torch
    made calls below Python of which a copy of its flight recorder tells.
    """
    met: dict[Any, Any] = {}
    for rank, view in views.items():
        if view.flight is not None and any(
            count.sequence is not None and count.sequence > count.issued for count in view.groups.values()
        ):
            return False
        sequences = view.sequences
        for event in view.events:
            body, ref = event.body, event.ref
            if isinstance(body, Collective):
                key: Any = (body.group.ranks, body.group.index, sequences[ref])
                made: Any = (
                    body.op,
                    body.dtype,
                    body.numel,
                    body.root,
                    body.reduce_op,
                    body.out_numel,
                    event.site,
                    event.phase.step,
                )
            elif isinstance(body, Barrier):
                key, made = (body.group.ranks, body.group.index, sequences[ref]), (event.site, event.phase.step)
            elif isinstance(body, Send | Recv):
                ends = (rank, body.peer) if isinstance(body, Send) else (body.peer, rank)
                group = None if body.group is None else (body.group.ranks, body.group.index)
                key, made = (group, *ends, body.tag, sequences[ref]), (body.dtype, body.numel)
            else:
                continue
            if met.setdefault(key, made) != made:
                return False
    return True
