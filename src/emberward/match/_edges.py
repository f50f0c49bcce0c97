"""Judges sends and receives by themselves: partners, sizes, and the tensors of a plan's edges. (M102, M105, M106)"""

from collections import defaultdict
from collections.abc import Iterator

from emberward.events import Observer, Recv, Send
from emberward.findings import Cause, Finding, Kind, Severity
from emberward.match._table import Channel, Problem, Table
from emberward.match._words import certainty_of, columns, op_text, phase_of, phase_text, plural, site_text


def _row(table: Table, e: int) -> tuple[str, ...]:
    event = table.standing(e)
    return (f"rank {event.rank}", op_text(event), phase_text(event.phase), site_text(event) or "")


def unmatched(table: Table, observer: Observer, *, is_complete: bool) -> Iterator[tuple[int, Finding]]:
    """Yields (channel, finding M105) for each channel whose counts differ.

    A channel to a rank that was not observed has no finding.
    """
    by_ends: dict[tuple[int, int], list[Channel]] = defaultdict(list)
    for channel in table.channels:
        by_ends[(channel.source, channel.destination)].append(channel)
    for c, channel in enumerate(table.channels):
        sends, recvs = channel.sends, channel.recvs
        if len(sends) == len(recvs):
            continue
        surplus, verb, lacking = (sends, "send", "receive") if len(sends) > len(recvs) else (recvs, "receive", "send")
        first = min(len(sends), len(recvs))
        event = table.standing(surplus[first])
        body = event.body
        if not isinstance(body, Send | Recv):
            raise TypeError(f"a channel holds sends and receives, found {body}")
        peer = body.peer
        if table.linker.node_of(peer) is None:
            continue
        count = len(surplus) - first
        near = _near_miss(by_ends[(channel.source, channel.destination)], channel)
        evidence = columns([_row(table, surplus[first])])
        own = f"rank {event.rank}"
        ways = "sends" if verb == "send" else "receives"
        message = (
            f"{plural(count, verb)} of {own} {'to' if verb == 'send' else 'from'} rank {peer} "
            f"{'has' if count == 1 else 'have'} no {lacking}: {own} {ways} {len(surplus)}, rank {peer} "
            f"{'receives' if verb == 'send' else 'sends'} {first}"
        )
        yield (
            c,
            Finding(
                code="M105",
                severity=Severity.ERROR if is_complete else Severity.WARNING,
                kind=Kind.MISSING,
                cause=Cause.UNMATCHED_P2P,
                certainty=certainty_of(observer),
                message=message,
                waiting_ranks=(event.rank,),
                site=site_text(event),
                phase=phase_of(event),
                evidence=evidence + near,
                next=f"post the {lacking} on rank {peer}, or drop the {verb} of {own}",
            ),
        )


def _near_miss(channels: list[Channel], channel: Channel) -> tuple[str, ...]:
    """Did-you-mean lines: another tag or group of the same two ranks with the opposite surplus."""
    surplus = len(channel.sends) - len(channel.recvs)
    return tuple(
        f"did you mean tag {other.tag}? there the other side has {plural(abs(gap), 'call')} too many"
        for other in channels
        if other is not channel and surplus * (gap := len(other.sends) - len(other.recvs)) < 0
    )


def unequal_messages(table: Table, observer: Observer) -> Iterator[Finding]:
    """Yields M102 for the first pair of each channel whose ends name different sizes or types.

    Two ends are no majority: no rank is named as the culprit.
    """
    for channel in table.channels:
        for send, recv in zip(channel.sends, channel.recvs, strict=False):
            left, right = table.events[send].body, table.events[recv].body
            if not (isinstance(left, Send) and isinstance(right, Recv)):
                raise TypeError(f"a channel holds sends and receives, found {left} and {right}")
            if left.dtype != right.dtype and None not in (left.dtype, right.dtype):
                cause, what = Cause.DTYPE, f"sends {left.dtype} where rank {channel.destination} expects {right.dtype}"
            elif left.numel != right.numel and None not in (left.numel, right.numel):
                cause = Cause.SHAPE
                what = f"sends {left.numel} elements where rank {channel.destination} expects {right.numel}"
            else:
                continue
            yield Finding(
                code="M102",
                severity=Severity.ERROR,
                kind=Kind.MISMATCH,
                cause=cause,
                certainty=certainty_of(observer),
                message=f"rank {channel.source} {what}; two ends are no majority, so neither is named as wrong",
                phase=phase_of(table.events[send]),
                evidence=columns([_row(table, send), _row(table, recv)]),
                next="make both ends name the same size and type",
            )
            break


def edges_without_tensor(table: Table) -> Iterator[Finding]:
    """Yields M106 for each edge of a plan that names no tensor; once for each line or name of an edge.

    OneFlow checks the same in TaskEdge::CheckRegstLbiValid (oneflow/core/graph/task_node.cpp).
    """
    seen: set[tuple[int, str, str | None]] = set()
    for channel in table.channels:
        for e in (*channel.sends, *channel.recvs):
            bare = table.events[e].body
            if not isinstance(bare, Send | Recv) or bare.tensor is not None:
                continue
            event = table.standing(e)
            name = event.phase.name
            source, destination = channel.source, channel.destination
            edge = f"from rank {source} to rank {destination}"
            key = (table.node[e], f"{edge} {name}", site_text(event))
            if key in seen:
                continue
            seen.add(key)
            verb = "send" if isinstance(bare, Send) else "receive"
            yield Finding(
                code="M106",
                severity=Severity.ERROR,
                kind=Kind.EDGE,
                cause=Cause.EDGE_WITHOUT_TENSOR,
                certainty=certainty_of(Observer.PLAN),
                message=f"the edge {edge}{f' ({name})' if name else ''} carries no tensor",
                culprit_ranks=(event.rank,),
                site=site_text(event),
                phase=phase_of(event),
                evidence=columns([_row(table, e)]),
                next=f"name the tensor on the {verb} of rank {event.rank}: tensor=...",
            )


def problem_finding(table: Table, problem: Problem, observer: Observer, *, is_complete: bool) -> Finding:
    """M108: the trace contradicts itself. A warning where the trace may have been cut (an overwritten ring)."""
    event = table.standing(problem.event)
    return Finding(
        code="M108",
        severity=Severity.ERROR if is_complete else Severity.WARNING,
        kind=Kind.CONFIG,
        cause=Cause.UNKNOWN,
        certainty=certainty_of(observer),
        message=f"rank {event.rank}, lane {event.lane}, position {event.position} {problem.text}",
        site=site_text(event),
        phase=phase_of(event),
        evidence=columns([_row(table, problem.event)]),
        next="repair what wrote the trace; nothing is proved about a trace that contradicts itself",
    )
