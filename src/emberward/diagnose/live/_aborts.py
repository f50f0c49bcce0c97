"""A rank that aborted inside a call: what call of the other ranks it met.

[Note: aborts]
On gloo a call that meets a larger one ends its process with SIGABRT, within milliseconds: too soon for torch's count of
calls, and for a copy of its own recorder of the calls below Python (DDP's). So calls cannot be numbered then. What is
left: the call that each ring holds open, and the line at which the other ranks' programs were when the connection
broke, or of the backward that they had not left when the launcher ended them, which may come first. Where these differ,
calls that differ have met. The text tells which of two lines is the odd one; the ring,
whether the open call was ever made before.
"""

import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from emberward.diagnose import (
    PARTED,
    Frame,
    comes_first,
    hang_finding,
    is_out_of_data,
    only_in,
    passed_at,
    ranks_text,
    swallowed_at,
    tie_break_by_text,
    verb,
)
from emberward.diagnose.live._pair import SnapshotPair
from emberward.diagnose.live._snapshot import OpenCall, RankSnapshot, RingFacts
from emberward.events import Site
from emberward.findings import Cause, Certainty, Finding, Kind
from emberward.match import OddSide

_LEFT = "it has left the loop that they are still in"
_BEHIND = "it is still in the loop that they have left"
_DIFFER = "a process aborted: gloo does so when calls of different size meet"
_UNEVEN = "give every rank the same number of batches: drop_last=True, a sampler that pads, or a Join context"


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastCall:
    """Where a rank was at the end. `call` None: in a call below Python, of which only the line is known."""

    rank: int
    site: Site
    call: OpenCall | None
    number: int | None = None
    stack: tuple[Frame, ...] = ()

    @property
    def frames(self) -> tuple[Frame, ...]:
        return self.stack or (Frame(function=self.site.function or "", file=self.site.file, line=self.site.line),)

    @property
    def short(self) -> str:
        return Frame(function="", file=self.site.file, line=self.site.line).site

    @property
    def has_parts(self) -> bool:
        """Whether each peer gets a part of its own, so that members may hold tensors of different size."""
        return self.text.partition(" ")[0] in PARTED

    @property
    def form(self) -> tuple[str, ...]:
        """What has to be alike where calls meet."""
        words = self.text.split(" ")
        return (words[0], words[-1]) if self.has_parts else tuple(words)

    @property
    def text(self) -> str:
        return "a call below Python" if self.call is None else self.call.text


def _way_to(call: OpenCall, crashed: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The stack of a crash, from the line of the open call outwards; empty where it did not crash there."""
    places = [(frame.file, frame.line) for frame in crashed]
    at = (call.file, call.line)
    return crashed[places.index(at) :] if at in places else ()


def _own(rank: int, ring: RingFacts) -> _LastCall | None:
    """Where a rank was when it aborted; None where that was in no call and no backward."""
    call, number = ring.open_call, ring.open_sequence
    if call is not None:
        site, way = Site(file=call.file, line=call.line), _way_to(call, ring.crashed)
        return _LastCall(rank=rank, site=site, call=call, number=number, stack=way)
    if ring.backward is None:
        return None
    return _LastCall(rank=rank, site=Site(file=ring.backward[0], line=ring.backward[1]), call=None)


def _places(pair: SnapshotPair, aborted: RankSnapshot, own: _LastCall) -> list[_LastCall]:
    """Where the other ranks were: in an open call, where a lost connection raised, or in backward when they ended."""
    found = []
    for rank, seen in pair.snapshot.ranks.items():
        if rank == aborted.rank or seen.ring is None:
            continue
        other = seen.ring.open_call
        if other is not None and (own.call is None or other.group == own.call.group):
            found.append(
                _LastCall(
                    rank=rank, site=Site(file=other.file, line=other.line), call=other, number=seen.ring.open_sequence
                )
            )
            continue
        error = seen.ring.moment("exception")
        name, _, line = ("" if error is None or error.site is None else error.site).rpartition(":")
        if other is None and line.isdigit() and Frame(function="", file=own.site.file).site == name:
            found.append(_LastCall(rank=rank, site=Site(file=own.site.file, line=int(line)), call=None))
        elif other is None and seen.ring.backward is not None:
            file, number = seen.ring.backward
            found.append(_LastCall(rank=rank, site=Site(file=file, line=number), call=None))
    return found


def abort_findings(pair: SnapshotPair, exits: Mapping[int, int]) -> list[Finding]:
    """A finding that says why a rank aborted, when it met another call. See [Note: aborts]."""
    codes = {r: exits.get(r, seen.process.exit_code) for r, seen in pair.snapshot.ranks.items()}
    for rank, seen in pair.snapshot.ranks.items():
        if codes[rank] != -signal.SIGABRT or seen.ring is None:
            continue
        call, beside = seen.ring.open_call, seen.ring.beside
        if beside is not None and (seen.ring.backward is not None or (call is not None and call.group == beside.group)):
            return [_of_two_threads(pair, rank, beside)]
        own = _own(rank, seen.ring)
        if own is None:
            continue
        # Who is in a later call of the group has ended this one.
        places = [
            each for each in _places(pair, seen, own) if None in (n := each.number, own.number) or n == own.number
        ]
        others = [place for place in places if (place.site, place.form) != (own.site, own.form)]
        if not others and own.has_parts:
            return [_of_parts(pair, own)]
        if not others:
            continue
        left = _left_at_one_line(pair, own, others)
        if left is not None:
            return [left]
        if all(place.site == own.site for place in others):
            # Below Python nothing but the line is known: at one line there is nothing to compare.
            return [_differing([own, *places])] if all(place.call is not None for place in others) else []
        return [_at_two_lines(pair, own, places)]
    return []


def _left_at_one_line(pair: SnapshotPair, own: _LastCall, others: list[_LastCall]) -> Finding | None:
    """A finding where one line of the user's, such as a trainer's start, stands for both sides: whose order tells."""
    if 2 * len(others) <= len(pair.snapshot.ranks) - 1 or any(place.site != own.site for place in others):
        return None
    gone = _is_gone(own, others[0], pair), _is_gone(others[0], own, pair)
    if gone[0] is gone[1]:
        return None
    sides = ([own], others) if gone[0] else (others, [own])
    return _met(pair, ([own], others), (gone[0], *_without(sides[0][0], sides[1][0], pair)), [])


def _aborted(code: str, message: str, cause: Cause, **others: Any) -> Finding:
    """The error on calls that differ and met; `others` of `hang_finding`."""
    told: dict[str, Any] = {
        "evidence": (_DIFFER,),
        "ruled_out": ("the rank that aborted, for that alone: gloo aborts whichever has the smaller buffer",),
    }
    return hang_finding(code, message, kind=Kind.MISMATCH, cause=cause, **{**told, **others})


def _of_two_threads(pair: SnapshotPair, rank: int, beside: OpenCall) -> Finding:
    """Two threads of each rank made calls of one group: which came first was chance, so that other ones met."""
    ring = pair.snapshot.ranks[rank].ring
    call, backward = (None, None) if ring is None else (ring.open_call, ring.backward)
    file, line = backward or (("", 0) if call is None else (call.file, call.line))
    here, there = (Frame(function="", file=f, line=n).site for f, n in ((beside.file, beside.line), (file, line)))
    return _aborted(
        "H152",
        f"two threads make calls of one group: one {beside.text} at {here}, the main thread its own at {there}; which "
        f"comes first differs from rank to rank, and rank {rank} aborted when calls that differ met",
        Cause.DIFFERENT_OP,
        waiting=list(pair.snapshot.ranks),
        site=here,
        next_step=f"give the thread at {here} a group of its own, or make its calls in the main thread",
    )


def _of_parts(pair: SnapshotPair, own: _LastCall) -> Finding:
    """A finding for a rank that aborted in a call in which each peer sends it a part, beside others in that call."""
    return _aborted(
        "M102",
        f"rank {own.rank} aborted in {own.text} at {own.short}: a peer sent it more than it had room for; what it "
        "expects and what is sent differ",
        Cause.SHAPE,
        ranks=[own.rank],
        waiting=[rank for rank in pair.snapshot.ranks if rank != own.rank],
        site=own.short,
        evidence=("a process aborted: gloo does so when a part of a call is larger than its receiver expects",),
        ruled_out=("ranks that are in a later call of the group: they have ended this one",),
        next_step=f"print what each rank sends and expects at {own.short}: the sizes of one pair differ",
    )


def _differing(places: list[_LastCall]) -> Finding:
    """One line, and calls of another operation, type or size: the minority is the odd one, of two nobody is."""
    counts = Counter(place.text for place in places)
    most, size = counts.most_common(1)[0]
    is_tied = 2 * size <= len(places)
    odd = [] if is_tied else [place for place in places if place.text != most]
    words = [text.split(" ") for text in counts]
    cause = Cause.SHAPE
    if len({each[0] for each in words}) > 1:
        cause = Cause.DIFFERENT_OP
    elif len({each[-1] for each in words}) > 1:
        cause = Cause.DTYPE
    return _aborted(
        "M101" if cause is Cause.DIFFERENT_OP else "M102",
        f"ranks do not agree at {places[0].short}: "
        + ", ".join(f"{ranks_text([p.rank for p in places if p.text == text])} in {text}" for text in counts)
        + ("; no majority tells which is right" if is_tied else ""),
        cause,
        certainty=Certainty.OBSERVED,
        ranks=[place.rank for place in odd],
        waiting=[place.rank for place in places if place not in odd],
        site=places[0].short,
        next_step="print the operation, type and shape before this line on every rank, and make them agree",
    )


def _at_two_lines(pair: SnapshotPair, own: _LastCall, places: list[_LastCall]) -> Finding:
    """Two lines whose calls met: which of the two is the odd one, as far as text, history and numbers tell."""
    others = [place for place in places if place.site != own.site]
    there = others[0]
    sides = ([own, *(p for p in places if p.site == own.site)], [p for p in others if p.site == there.site])
    odd = tie_break_by_text(pair.line_of)(own.site, there.site)
    return _met(pair, sides, _odd_side(pair, sides, odd), [] if odd is None else [odd.why])


def _met(pair: SnapshotPair, sides: tuple[list[_LastCall], list[_LastCall]], odd: "_Odd", why: list[str]) -> Finding:
    """The finding for two sides whose calls met. `odd`: which one is, and why, as `_odd_side` tells."""
    (own, there), (is_first, cause, what, where) = (side[0] for side in sides), odd
    guilty, waiting = sides if is_first else sides[::-1]
    is_named, odd_line = cause is not Cause.UNKNOWN, guilty[0].short
    if not is_named:
        guilty, waiting = [], [*sides[0], *sides[1]]
    return _aborted(
        "H152",
        f"{ranks_text([p.rank for p in sides[0]])} {verb(sides[0], 'was', 'were')} in {own.text} at {own.short}, which "
        f"met {there.text} that {ranks_text([place.rank for place in sides[1]])} made at {there.short}: {what}",
        cause,
        ranks=[place.rank for place in guilty],
        waiting=[place.rank for place in waiting],
        hosts=[pair.snapshot.ranks[place.rank].host for place in guilty],
        site=where or (odd_line if is_named else own.short),
        evidence=[_DIFFER, *why],
        next_step=_UNEVEN
        if cause is Cause.UNEVEN_DATA
        else f"read the condition around {odd_line}: make this call on every rank, or on none",
    )


def _ring(place: _LastCall, pair: SnapshotPair) -> RingFacts:
    """The ring of a place's rank, which has one: it tells the place."""
    ring = pair.snapshot.ranks[place.rank].ring
    assert ring is not None, "a place is told by a ring"
    return ring


def _is_gone(place: _LastCall, other: _LastCall, pair: SnapshotPair) -> bool:
    """Whether a rank is at its place instead of at the other side's, to which it came in its earlier rounds.

    It lacks that place of its order, or its data have ended where the other's have not.
    """
    lacked = _ring(place, pair).lacks
    is_lacked = lacked is not None and (lacked.file, lacked.line) == (other.site.file, other.site.line)
    return is_lacked or _is_at_end(place, other, pair)


def _is_at_end(place: _LastCall, other: _LastCall, pair: SnapshotPair) -> bool:
    return is_out_of_data(_ring(place, pair).data, _ring(other, pair).data)


_Odd = tuple[bool, Cause, str, str | None]


def _without(place: _LastCall, other: _LastCall, pair: SnapshotPair) -> tuple[Cause, str, str | None]:
    """Why a rank came to its place without the other side's call, as it never did: cause, words, and where it decided.

    A call that the program has no way past is still to come: then its own came before its turn.
    """
    if _is_at_end(place, other, pair):
        return Cause.UNEVEN_DATA, "its data have ended, and the other side's have not", None
    guard = swallowed_at(place.frames, other.frames, pair.line_of)
    if guard is not None:
        why = f"it came there without the other's call, which is guarded at {guard.site} and left out after an error"
        return Cause.SWALLOWED_EXCEPTION, why, guard.site
    # One line of the user's for both, such as a trainer's start, tells nothing of the way from one to the other.
    ways = None if place.site == other.site else passed_at(place.frames, other.frames, pair.line_of)
    if ways == [] or (place.call is not None and place.call.is_new):
        return Cause.EXTRA_COLLECTIVE, "in no earlier round did it come there without the other's call before", None
    why = "in each earlier round that side came to the other's line next, and now it did not"
    return Cause.SKIPPED_COLLECTIVE, why, ways[-1].site if ways else None


def _odd_side(pair: SnapshotPair, sides: tuple[list[_LastCall], list[_LastCall]], odd: OddSide | None) -> _Odd:
    """Whether the first side is the odd one, why, that in words, and where it decided so, where that is known.

    The cause is UNKNOWN when nothing tells. `odd`: what the text tells of the two lines by themselves.
    """
    own, there = (side[0] for side in sides)
    ring = pair.snapshot.ranks[own.rank].ring
    before = () if ring is None or ring.before is None else (ring.before,)
    is_ahead = comes_first(before, own.frames, there.frames, pair.line_of) if before else None
    if odd is not None and odd.cause is not Cause.EXTRA_COLLECTIVE and odd.is_first is not is_ahead:
        return odd.is_first, odd.cause, _LEFT if odd.is_first else _BEHIND, None
    gone = _is_gone(own, there, pair), _is_gone(there, own, pair)
    if gone[0] is not gone[1]:
        return gone[0], *_without(*((own, there) if gone[0] else (there, own)), pair)
    here, beyond = (_ring(place, pair) for place in (own, there))
    at = [place.frames[0] for place in (own, there)]
    alone = [
        only_in(a.been_at, b.been_at, ever=(a.ever_at, b.ever_at), without=at)
        for a, b in ((here, beyond), (beyond, here))
    ]
    if found := alone[0] or alone[1]:
        why = f"at {found.site} it made calls that the other side never makes"
        return alone[0] is not None, Cause.EXTRA_COLLECTIVE, why, found.site
    sizes = [len(side) for side in sides]
    if is_ahead is not None and sizes[0] != sizes[1]:
        is_first = sizes[0] < sizes[1]
        if is_first is is_ahead:
            return is_first, Cause.EXTRA_COLLECTIVE, "most did not make it before they came to the other call", None
        return is_first, Cause.SKIPPED_COLLECTIVE, "most made the other call before they came to it", None
    extra = None if odd is None else (own.call if odd.is_first else there.call)
    if odd is not None and extra is not None and extra.is_new:
        return odd.is_first, Cause.EXTRA_COLLECTIVE, "the other side does not make it", None
    if odd is not None:
        # What is made in other rounds too belongs to each: the other side left it out.
        return not odd.is_first, Cause.SKIPPED_COLLECTIVE, "the other side does not make it", None
    other = pair.snapshot.ranks[there.rank].ring
    is_other_usual = other is None or other.lacks is None
    if own.call is not None and own.call.is_new and ring is not None and ring.has_history and is_other_usual:
        return True, Cause.EXTRA_COLLECTIVE, "nobody made it before", None
    return True, Cause.UNKNOWN, "nothing tells which of the two is the odd one", None
