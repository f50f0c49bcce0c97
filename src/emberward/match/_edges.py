"""Judges sends and receives by themselves: partners, sizes, and the tensors of a plan's edges. (M102, M105, M106)"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from emberward.events import Observer, Recv, Send
from emberward.findings import Cause, Finding, Kind, Severity
from emberward.match._departing import departing_ranks, parted_transfers
from emberward.match._flow import Executed
from emberward.match._table import Channel, Problem, Table
from emberward.match._words import certainty_of, columns, op_text, phase_of, phase_text, plural, ranks_text, site_text


def _row(table: Table, e: int) -> tuple[str, ...]:
    event = table.standing(e)
    return (f"rank {event.rank}", op_text(event), phase_text(event.phase), site_text(event) or "")


def unmatched(
    table: Table,
    observer: Observer,
    *,
    is_complete: bool,
    open_ranks: frozenset[int] = frozenset(),
    with_departing: bool = False,
) -> Iterator[tuple[int, Finding]]:
    """Yields (channel, finding M105) for each channel whose counts differ.

    A channel to a rank that was not observed, or that may have gone on, has no finding.
    """
    by_ends: dict[tuple[int, int], list[Channel]] = defaultdict(list)
    for channel in table.channels:
        by_ends[(channel.source, channel.destination)].append(channel)
    departing = departing_ranks(table) if with_departing else {}
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
        if table.linker.node_of(peer) is None or peer in open_ranks:
            continue
        culprits = departing.get(channel.source, ())
        odd = (f"{ranks_text(culprits)}: another number of transfers than the others make",) if culprits else ()
        is_own = event.rank in culprits
        fewer = recvs if surplus is sends else sends
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
                culprit_ranks=culprits,
                waiting_ranks=() if is_own else (event.rank,),
                site=site_text(event)
                if not culprits or event.rank in culprits
                else _site_of(table, culprits[0], fewer),
                phase=phase_of(event),
                evidence=evidence + odd + near,
                next=f"post the {lacking} on rank {peer}, or drop the {verb} of {own}",
            ),
        )


def parted(
    table: Table, flows: Mapping[int, Executed], observer: Observer, *, open_ranks: frozenset[int]
) -> Iterator[tuple[frozenset[int], Finding]]:
    """Yields (ranks, finding M105) for connected ranks whose programs part so that their transfers differ."""
    wrong = [
        (channel.source, channel.destination)
        for channel in table.channels
        if len(channel.sends) != len(channel.recvs)
        or any(found[0] is Severity.ERROR for found in _differences(table, channel))
    ]
    for each in parted_transfers(table, flows, wrong) if wrong and table.is_plain else ():
        event = table.standing(each.events[0])
        body = event.body
        if not isinstance(body, Send | Recv):
            raise TypeError(f"transfers are sends and receives, found {body}")
        verb, lacking = ("sends to", "receive") if isinstance(body, Send) else ("receives from", "send")
        peer = f"rank {body.peer}"
        rows = columns([_row(table, e) for e in each.events])
        yield (
            frozenset(each.ranks),
            Finding(
                code="M105",
                severity=Severity.ERROR,
                kind=Kind.MISSING,
                cause=Cause.UNMATCHED_P2P,
                certainty=certainty_of(observer),
                message=f"rank {event.rank} {verb} {peer} where {peer} goes on without the {lacking}",
                culprit_ranks=each.culprits,
                waiting_ranks=tuple(
                    rank for rank in each.ranks if rank not in each.culprits and rank not in open_ranks
                ),
                site=each.site,
                phase=phase_of(event),
                evidence=(*rows, each.why),
                next=f"post the {lacking} on {peer}, or make the transfer on neither side",
            ),
        )


def _site_of(table: Table, rank: int, fewer: list[int]) -> str | None:
    """The rank's last line among the calls of which there are too few, else its last one that sends or receives."""
    node = table.linker.node_of(rank)
    if fewer and table.node[fewer[-1]] == node:
        return site_text(table.events[fewer[-1]])
    events = () if node is None else reversed([table.events[e] for e in table.node_events[node]])
    return next((site_text(event) for event in events if isinstance(event.body, Send | Recv) and event.site), None)


def _near_miss(channels: list[Channel], channel: Channel) -> tuple[str, ...]:
    """Did-you-mean lines: another tag or group of the same two ranks with the opposite surplus."""
    surplus = len(channel.sends) - len(channel.recvs)
    return tuple(
        f"did you mean tag {other.tag}? there the other side has {plural(abs(gap), 'call')} too many"
        for other in channels
        if other is not channel and surplus * (gap := len(other.sends) - len(other.recvs)) < 0
    )


def unequal_messages(
    table: Table, observer: Observer, *, with_departing: bool = False
) -> Iterator[tuple[Channel, Finding]]:
    """Yields (channel, finding M102) for the first pair of each channel whose ends name different sizes or types; for
    shapes a notice.

    Two ends are no majority: no rank is named as the culprit.
    """
    for channel in table.channels:
        notice = None
        for found in _differences(table, channel):
            if found[0] is Severity.ERROR:
                yield channel, _unequal(table, channel, found, observer, with_departing=with_departing)
                break
            notice = notice or found
        else:
            if notice is not None:
                yield channel, _unequal(table, channel, notice, observer, with_departing=with_departing)


Difference = tuple[Severity, Cause, str, int, int]
"""(severity, cause, what, send, receive) of a pair whose ends differ."""


def _differences(table: Table, channel: Channel) -> Iterator[Difference]:
    """Yields the pairs of the channel whose ends differ."""
    for send, recv in zip(channel.sends, channel.recvs, strict=False):
        left, right = table.events[send].body, table.events[recv].body
        if not (isinstance(left, Send) and isinstance(right, Recv)):
            raise TypeError(f"a channel holds sends and receives, found {left} and {right}")
        peer = f"where rank {channel.destination} expects"
        if left.dtype != right.dtype and None not in (left.dtype, right.dtype):
            yield Severity.ERROR, Cause.DTYPE, f"sends {left.dtype} {peer} {right.dtype}", send, recv
        elif left.numel != right.numel and None not in (left.numel, right.numel):
            yield Severity.ERROR, Cause.SHAPE, f"sends {left.numel} elements {peer} {right.numel}", send, recv
        elif left.shape != right.shape and min(len(left.shape or ()), len(right.shape or ())) > 1:
            # A row of values is the same row on both sides; of two shapes with several dims one is read wrongly.
            yield Severity.NOTICE, Cause.SHAPE, f"sends {_dims(left)} {peer} {_dims(right)}", send, recv


def _unequal(table: Table, channel: Channel, found: Difference, observer: Observer, *, with_departing: bool) -> Finding:
    severity, cause, what, send, recv = found
    is_error = severity is Severity.ERROR
    odd = _odd_end(table, send, recv, cause) if is_error and with_departing else None
    tail = "two ends are no majority, so neither is named as wrong" if is_error else "as many elements"
    if odd is not None:
        tail = f"other transfers are as {'the receiver' if odd == send else 'the sender'} has it"
    culprits = () if odd is None else (table.standing(odd).rank,)
    return Finding(
        code="M102",
        severity=severity,
        kind=Kind.MISMATCH,
        cause=cause,
        certainty=certainty_of(observer),
        message=f"rank {channel.source} {what}; {tail}",
        culprit_ranks=culprits,
        waiting_ranks=() if odd is None else (table.standing(recv if odd == send else send).rank,),
        site=site_text(table.events[send if odd is None else odd]),
        phase=phase_of(table.events[send]),
        evidence=columns([_row(table, send), _row(table, recv)]),
        next="make both ends name the same size and type" if is_error else "make sure that this is meant",
    )


def _odd_end(table: Table, send: int, recv: int, cause: Cause) -> int | None:
    """The end that names what no transfer with equal ends has, where such transfers have what the other end names."""

    def fact(e: int) -> object:
        body = table.events[e].body
        return (body.dtype if cause is Cause.DTYPE else body.numel) if isinstance(body, Send | Recv) else None

    pairs = [pair for channel in table.channels for pair in zip(channel.sends, channel.recvs, strict=False)]
    usual = {fact(left) for left, right in pairs if fact(left) == fact(right)}
    if (fact(send) in usual) == (fact(recv) in usual):
        return None
    return recv if fact(send) in usual else send


def _dims(body: Send | Recv) -> str:
    return f"[{', '.join(map(str, body.shape or ()))}]"


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
