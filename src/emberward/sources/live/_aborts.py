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

from emberward.diagnose import Frame, hang_finding, ranks_text, tie_break_by_text
from emberward.events import Site
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.live._look import OpenCall, RankLook
from emberward.sources.live._scene import Scene

_LEFT = "it has left the loop that they are still in"
_BEHIND = "it is still in the loop that they have left"
_UNEVEN = "give every rank the same number of batches: drop_last=True, a sampler that pads, or a Join context"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a rank was at the end. `call` None: in a call below Python, of which only the line is known."""

    rank: int
    site: Site
    call: OpenCall | None

    @property
    def short(self) -> str:
        return Frame(function="", file=self.site.file, line=self.site.line).site

    @property
    def text(self) -> str:
        return "a call below Python" if self.call is None else self.call.text


def _places(scene: Scene, aborted: RankLook, call: OpenCall) -> list[_Place]:
    """Where the other ranks were: in an open call, where a lost connection raised, or in backward when they ended."""
    found = []
    for rank, seen in scene.look.ranks.items():
        if rank == aborted.rank or seen.ring is None:
            continue
        other = seen.ring.open_call
        if other is not None and other.group == call.group:
            found.append(_Place(rank=rank, site=Site(file=other.file, line=other.line), call=other))
            continue
        error = seen.ring.moment("exception")
        name, _, line = ("" if error is None or error.site is None else error.site).rpartition(":")
        if other is None and line.isdigit() and Frame(function="", file=call.file).site == name:
            found.append(_Place(rank=rank, site=Site(file=call.file, line=int(line)), call=None))
        elif other is None and seen.ring.backward is not None:
            file, number = seen.ring.backward
            found.append(_Place(rank=rank, site=Site(file=file, line=number), call=None))
    return found


def abort_findings(scene: Scene, exits: Mapping[int, int]) -> list[Finding]:
    """A finding that says why a rank aborted, when it met another call. See [Note: aborts]."""
    codes = {r: exits.get(r, seen.process.exit_code) for r, seen in scene.look.ranks.items()}
    for rank, seen in scene.look.ranks.items():
        call = None if seen.ring is None else seen.ring.open_call
        if codes[rank] != -signal.SIGABRT or call is None:
            continue
        own = _Place(rank=rank, site=Site(file=call.file, line=call.line), call=call)
        places = _places(scene, seen, call)
        others = [place for place in places if (place.site, place.text) != (own.site, own.text)]
        if not others:
            continue
        if all(place.site == own.site for place in others):
            # Below Python nothing but the line is known: at one line there is nothing to compare.
            return [_differing([own, *places])] if all(place.call is not None for place in others) else []
        return [_at_two_lines(scene, own, [place for place in others if place.site != own.site])]
    return []


def _differing(places: list[_Place]) -> Finding:
    """One line, and calls of another operation, type or size: the minority is the odd one, of two nobody is."""
    counts = Counter(place.text for place in places)
    most, size = counts.most_common(1)[0]
    odd = [place for place in places if place.text != most]
    is_tied = 2 * size <= len(places)
    words = [text.split(" ") for text in counts]
    cause = Cause.SHAPE
    if len({each[0] for each in words}) > 1:
        cause = Cause.DIFFERENT_OP
    elif len({each[-1] for each in words}) > 1:
        cause = Cause.DTYPE
    told = "; no majority tells which is right" if is_tied else ""
    return hang_finding(
        "M101" if cause is Cause.DIFFERENT_OP else "M102",
        f"ranks do not agree at {places[0].short}: "
        + ", ".join(f"{ranks_text([p.rank for p in places if p.text == text])} in {text}" for text in counts)
        + told,
        kind=Kind.MISMATCH,
        cause=cause,
        certainty=Certainty.OBSERVED,
        severity=Severity.ERROR,
        ranks=() if is_tied else [place.rank for place in odd],
        waiting=[place.rank for place in (places if is_tied else (p for p in places if p.text == most))],
        site=places[0].short,
        evidence=("a process aborted: gloo does so when calls of different size meet",),
        ruled_out=("the rank that aborted, for that alone: gloo aborts whichever has the smaller buffer",),
        next_step="print the operation, type and shape before this line on every rank, and make them agree",
    )


def _at_two_lines(scene: Scene, own: _Place, others: list[_Place]) -> Finding:
    """Two lines whose calls met: which of the two is the odd one, as far as text and history tell."""
    there = others[0]
    rest = [place for place in others if place.site == there.site]
    odd = tie_break_by_text(scene.line_of)(own.site, there.site)
    ring = scene.look.ranks[own.rank].ring
    call = own.call
    is_first, cause, what = True, Cause.UNKNOWN, "nothing tells which of the two is the odd one"
    evidence = ["a process aborted: gloo does so when calls of different size meet"]
    if odd is not None:
        is_first, cause = odd.is_first, odd.cause
        evidence.append(odd.why)
        what = _LEFT if is_first else _BEHIND
        extra = call if is_first else there.call
        if cause is Cause.EXTRA_COLLECTIVE:
            what = "the other side does not make it"
            if extra is None or not extra.is_new:
                # What is made in other rounds too belongs to each: the other side left it out.
                is_first, cause = not is_first, Cause.SKIPPED_COLLECTIVE
    elif call is not None and call.is_new and ring is not None and ring.has_history:
        cause, what = Cause.EXTRA_COLLECTIVE, "nobody made it before"
    own_side, other_side = [own], rest
    guilty, waiting = (own_side, other_side) if is_first else (other_side, own_side)
    is_named = cause is not Cause.UNKNOWN
    return hang_finding(
        "H152",
        f"rank {own.rank} was in {own.text} at {own.short}, which met {there.text} that "
        f"{ranks_text([place.rank for place in rest])} made at {there.short}: {what}",
        kind=Kind.MISSING if is_named else Kind.MISMATCH,
        cause=cause,
        certainty=Certainty.INFERRED,
        severity=Severity.ERROR,
        ranks=[place.rank for place in guilty] if is_named else (),
        waiting=[place.rank for place in (waiting if is_named else [own, *rest])],
        hosts=[scene.look.ranks[place.rank].host for place in guilty] if is_named else (),
        site=guilty[0].short if is_named else own.short,
        evidence=evidence,
        ruled_out=("the rank that aborted, for that alone: gloo aborts whichever has the smaller buffer",),
        next_step=_UNEVEN
        if cause is Cause.UNEVEN_DATA
        else f"read the condition around {guilty[0].short}: make this call on every rank, or on none",
    )
