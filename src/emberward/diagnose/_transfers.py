"""Sends and receives whose partner is not made: which of the two ranks left its own usual rounds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from emberward.diagnose._calls import Call, GroupName, RankFlight
from emberward.diagnose._departures import history
from emberward.diagnose._graph import Root, WaitGraph
from emberward.diagnose._order import MIN_ROUNDS, Newest, continues, newest, rounds
from emberward.diagnose._say import call_text, hang_finding, waits
from emberward.findings import Cause, Certainty, Finding

Sites = Mapping[int, str | None]
"""Where ranks are now, as far as their stacks tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A send or receive that `peer` does not answer. `is_left_out`: by both histories, the peer left its part out."""

    rank: int
    call: Call
    peer: int
    is_left_out: bool


def lone_transfer(graph: WaitGraph, root: Root) -> Transfer | None:
    """The transfer of the one rank of a cycle that sits in some while at least two wait in one collective."""
    transfers = [op for op in root.ops if op[2] == -1]
    crowds = [op for op in root.ops if op[2] != -1 and len(graph.calls.get(op, {})) >= 2]
    inside = {rank for op in transfers for rank in graph.calls.get(op, {})}
    if len(inside) != 1 or len(crowds) != 1 or len(root.ops) != len(transfers) + 1:
        return None
    rank = inside.pop()
    crowd = set(graph.calls[crowds[0]])
    found = [(graph.calls[op][rank], next(r for r in op[1] if r != rank)) for op in transfers if rank in op[1]]
    crossed = [
        Transfer(rank=rank, call=call, peer=peer, is_left_out=_is_left_out(graph, rank, call, peer))
        for call, peer in found
        if peer in crowd
    ]
    # Of a batch, the transfer whose partner is known to be missing; else the one that the host waits in.
    crossed.sort(key=lambda transfer: (not transfer.is_left_out, transfer.call != graph.flights[rank].head))
    return crossed[0] if crossed else None


def _count(flight: RankFlight, call: Call, *, is_send: bool, site: str | None = None) -> int:
    """How many sends or receives the rank holds to or from the call's peer; at one line alone where one is given."""
    return sum(
        number
        for (group, sends, peer, line), number in flight.p2p_counts.items()
        if (group, sends, peer) == (call.group, is_send, call.peer) and site in (None, line)
    )


def _is_left_out(graph: WaitGraph, rank: int, call: Call, peer: int) -> bool:
    """Whether the rank makes this call in every round and the peer, which answered each of them, did not this time."""
    part = graph.flights[rank].groups[call.group]
    view = graph.groups.of(part)
    if rank not in view.members:
        return False
    theirs = replace(call, peer=view.members.index(rank))
    made = _count(graph.flights[rank], call, is_send=call.is_send)
    usual = _count(graph.flights[rank], call, is_send=call.is_send, site=call.site)
    answered = _count(graph.flights[peer], theirs, is_send=not call.is_send)
    is_left_out = usual > MIN_ROUNDS and MIN_ROUNDS <= answered < made
    is_one_more = _is_one_more(*_rounds(graph, rank, call, peer, theirs))
    return is_left_out and not is_one_more and not _is_shared(graph, peer, theirs)


def _is_one_more(ours: Sequence[int], answers: Sequence[int]) -> bool:
    """Whether the rank makes more such calls in this round than ever, while the peer made as many as always."""
    return newest(ours) is Newest.MORE and newest(answers) is Newest.USUAL


def _is_shared(graph: WaitGraph, rank: int, call: Call) -> bool:
    """Whether the rank made fewer transfers in this round because those that feed it did: who did not change is odd.

    Another kind of its transfers is fewer too, and so are the partner calls of the rank at its other end.
    """
    flight = graph.flights[rank]
    marks = _marks(flight)
    view = graph.groups.of(flight.groups[call.group])
    for key in flight.p2p_records:
        group, is_send, peer = key
        if group != call.group or peer in (None, call.peer) or marks is None or peer >= len(view.members):
            continue
        other = graph.flights.get(view.members[peer])
        if newest(_per_round(flight, *marks, key)) is not Newest.FEWER or other is None:
            continue
        partner = (group, not is_send, view.members.index(rank))
        if newest(_per_round(other, *marks, partner)) is Newest.FEWER:
            return True
    return False


def _marks(flight: RankFlight) -> tuple[Call, list[int]] | None:
    """The collective that the rank is in, and the numbers of the earlier ones that are alike; None outside of any."""
    head = flight.head
    if head is None or head.is_p2p:
        return None
    calls = [each for each in history(flight) if each.group == head.group and each.seq < head.seq]
    return head, [each.seq for each in calls if (each.op, each.place) == (head.op, head.place)]


def _rounds(graph: WaitGraph, rank: int, call: Call, peer: int, theirs: Call) -> tuple[list[int], list[int]]:
    """How many such calls the rank made in each round and how many the peer answered, the last round not yet ended.

    A round lies between two calls like the collective that the peer is in now: by their numbers, so for both alike.
    Empty when there is none.
    """
    marks = _marks(graph.flights[peer])
    if marks is None:
        return [], []
    ours = _per_round(graph.flights[rank], *marks, (call.group, call.is_send, call.peer))
    answers = _per_round(graph.flights[peer], *marks, (call.group, not call.is_send, theirs.peer))
    return ours, answers


def _per_round(
    flight: RankFlight, head: Call, marks: Sequence[int], key: tuple[GroupName, bool, int | None]
) -> list[int]:
    """How many transfers of one kind the rank made after each of the collectives `marks`, up to the next one."""
    ends = [(each.record, True) for each in history(flight) if each.group == head.group and each.seq in set(marks)]
    calls = sorted([*ends, *((record, False) for record in flight.p2p_records.get(key, ()))])
    return rounds(calls, is_mark=lambda call: call[1], is_counted=lambda call: not call[1], is_open=True)


def made_no_transfer(flight: RankFlight) -> bool:
    """Whether the rank made no transfer in this round, though it did in each earlier one; see `_per_round`."""
    marks = _marks(flight)
    keys = flight.p2p_records if marks is not None else ()
    counts = [_per_round(flight, *marks, key) for key in keys if marks is not None]
    totals = [sum(each) for each in zip(*counts, strict=True)]
    return len(totals) > 1 and totals[-1] == 0 and all(totals[:-1])


def _out_of_round(graph: WaitGraph, root: Root) -> Transfer | None:
    """The one transfer of a cycle whose peer is in a collective, and of which one side alone left its usual round."""
    found = []
    for op in root.ops:
        for rank, call in graph.calls.get(op, {}).items():
            peer = next((each for each in op[1] if each != rank), None)
            view = graph.groups.of(graph.flights[rank].groups[call.group])
            if not call.is_p2p or peer is None or peer not in graph.flights or rank not in view.members:
                continue
            theirs = replace(call, peer=view.members.index(rank))
            ours, answers = _rounds(graph, rank, call, peer, theirs)
            is_left_out = newest(answers) is Newest.FEWER and newest(ours) is Newest.USUAL
            is_left_out = is_left_out and not _is_shared(graph, peer, theirs)
            if is_left_out or _is_one_more(ours, answers):
                found.append(Transfer(rank=rank, call=call, peer=peer, is_left_out=is_left_out))
    return found[0] if len(found) == 1 else None


def new_peer_finding(graph: WaitGraph, root: Root, evidence: Sequence[str], sites: Sites) -> Finding | None:
    """A finding for the one rank of a cycle that is in a transfer with a rank with which it never exchanged any."""
    odd = [(rank, call) for rank in root.ranks if (call := _with_new_peer(graph.flights[rank])) is not None]
    if len(odd) != 1:
        return None
    ((rank, call),) = odd
    text = _text(graph, rank, call)
    waiting = sorted({*root.ranks, *root.victims} - {rank})
    site = sites.get(rank) or call.site
    return _unanswered(
        f"rank {rank} is in {text}, a rank with which it exchanged nothing in any round before, at {site}; "
        f"{waits(waiting)} in their usual ones",
        rank=rank,
        waiting=waiting,
        site=site,
        evidence=evidence,
        next_step=f"read how rank {rank} chooses its peer at {call.site}",
    )


def _unanswered(
    message: str, *, rank: int, waiting: Sequence[int], site: str | None, evidence: Sequence[str], next_step: str
) -> Finding:
    """A finding for a transfer of a cycle that nobody answers; the rank that is guilty of it."""
    return hang_finding(
        "H109",
        message,
        cause=Cause.UNMATCHED_P2P,
        ranks=(rank,),
        waiting=waiting,
        site=site,
        evidence=evidence,
        ruled_out=("a busy rank: every rank of the cycle waits in a call",),
        next_step=next_step,
    )


def _text(graph: WaitGraph, rank: int, call: Call) -> str:
    """The call of a rank in words, without its line."""
    return call_text(call, graph.groups.of(graph.flights[rank].groups[call.group])).partition(" at ")[0]


def _with_new_peer(flight: RankFlight) -> Call | None:
    """An open transfer with a peer that none before it had, of a rank that had enough with others."""
    counts: Counter[tuple[GroupName, int | None]] = Counter()
    for (group, _, peer, _), number in flight.p2p_counts.items():
        counts[group, peer] += number
    pending = Counter((call.group, call.peer) for call in flight.p2p_pending)
    new = [call for call in flight.p2p_pending if counts[call.group, call.peer] == pending[call.group, call.peer]]
    usual = sum(number for place, number in counts.items() if number > pending[place])
    return new[0] if new and usual > MIN_ROUNDS else None


def unmatched_finding(graph: WaitGraph, root: Root, evidence: Sequence[str]) -> Finding | None:
    """A finding for the one transfer of a cycle that its peer, which is in a collective, does not answer."""
    lone = lone_transfer(graph, root)
    transfer = lone or _out_of_round(graph, root)
    if transfer is None:
        return None
    rank, peer, call = transfer.rank, transfer.peer, transfer.call
    text = _text(graph, rank, call)
    culprit = peer if transfer.is_left_out else rank
    waiting = sorted((set(root.ranks) | set(root.victims)) - {culprit})
    head = graph.flights[peer].head
    site = head.site if transfer.is_left_out and head is not None else call.site
    what = (
        f"rank {peer} did in each round before, and is at {site}"
        if transfer.is_left_out
        else f"{waits(waiting)} for it{' in a collective' if lone is not None else ''}"
    )
    return _unanswered(
        f"rank {rank} waits in {text} at {call.site}, which its peer does not answer; {what}",
        rank=culprit,
        waiting=waiting,
        site=site,
        evidence=evidence,
        next_step=f"read {call.site}: which rank is its peer, and does that rank make the partner call",
    )


def _is_usual_tag(flight: RankFlight, call: Call) -> bool | None:
    """Whether the rank's last tag to or from that peer follows from the earlier ones; None when too few are known."""
    tags = flight.p2p_tags.get((call.group, call.is_send, call.peer), ())
    known = [tag for tag in tags if tag is not None]
    return continues(known) if len(known) == len(tags) else None


def _odd_among_peers(graph: WaitGraph, calls: Mapping[int, Call]) -> list[int]:
    """The one whose tag no other transfer of the same number has, between any two ranks, while some have its peer's."""
    keys = {rank: (call.group, call.is_send, call.peer) for rank, call in calls.items()}
    number = max(len(graph.flights[rank].p2p_tags.get(key, ())) for rank, key in keys.items())
    others = {
        tags[number - 1]
        for rank, flight in graph.flights.items()
        for key, tags in flight.p2p_tags.items()
        if keys.get(rank) != key and len(tags) >= number
    }
    odd = [rank for rank, call in calls.items() if call.tag not in others]
    return odd if len(odd) == 1 else []


def _of_other_tag(graph: WaitGraph, root: Root) -> dict[int, Call] | None:
    """A transfer in which a rank waits, and the first of those that its peer has open for it, by rank.

    None where the tag of one of these is that of the transfer, or is not told.
    """
    for op in root.ops:
        for rank, call in graph.calls.get(op, {}).items() if op[2] == -1 else ():
            view = graph.groups.of(graph.flights[rank].groups[call.group])
            peer = next((each for each in op[1] if each != rank), None)
            if peer is None or peer not in graph.flights or call.tag is None:
                continue
            pending = graph.flights[peer].p2p_pending
            answers = [c for c in pending if graph.is_to(c, peer, rank, view, is_send=not call.is_send)]
            if answers and not {each.tag for each in answers} & {call.tag, None}:
                return {rank: call, peer: answers[0]}
    return None


def other_tag_finding(graph: WaitGraph, root: Root, evidence: Sequence[str]) -> Finding | None:
    """A finding for a send and a receive of two ranks that wait for each other with different tags: they never meet.

    The culprit is the one whose tag does not follow from its earlier ones, when the other's does.
    """
    calls = _of_other_tag(graph, root)
    if calls is None:
        return None
    send = next(rank for rank, call in calls.items() if call.is_send)
    recv = next(rank for rank, call in calls.items() if not call.is_send)
    usual = {rank: _is_usual_tag(graph.flights[rank], call) for rank, call in calls.items()}
    left = [rank for rank, is_usual in usual.items() if is_usual is False]
    odd = left if len(left) == 1 and True in usual.values() else []
    if odd:
        evidence = (*evidence, f"rank {odd[0]}'s tag does not follow from those of its earlier rounds, its peer's does")
    elif odd := _odd_among_peers(graph, calls):
        evidence = (*evidence, f"the same transfers with and of other ranks do not have rank {odd[0]}'s tag")
    return hang_finding(
        "H150",
        f"rank {send} sends to rank {recv} with tag {calls[send].tag} at {calls[send].site}, and rank {recv} "
        f"receives from it with tag {calls[recv].tag} at {calls[recv].site}: the two never meet",
        cause=Cause.UNMATCHED_P2P,
        certainty=Certainty.OBSERVED,
        ranks=odd,
        waiting=sorted({send, recv, *root.ranks, *root.victims} - set(odd)),
        site=calls[odd[0]].site if odd else None,
        evidence=evidence,
        ruled_out=("a stalled device or link: the two calls do not fit",),
        next_step=f"read {calls[send].site} and {calls[recv].site}: the tag is to be the same on both sides",
    )
