"""A rank that aborted inside a call whose partners below Python no recorder could write down.

[Note: aborts]
On gloo a call that meets a larger one ends its process with SIGABRT, within milliseconds: too soon for a copy of
torch's own recorder of the calls below Python (DDP's). What is left: the call that the ring holds open on one rank, and
the line at which the other ranks' programs were when the connection broke. The text tells whether one of the two has
left the loop of the other; the ring, whether the open call was ever made before.
"""

import signal
from collections.abc import Mapping

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.dumps import Call, Frame, hang_finding, history, left_the_loop, ranks_text, user_frame
from emberward.sources.live._look import RankLook
from emberward.sources.live._scene import Scene


def _other_place(seen: RankLook, call: Call) -> Frame | None:
    """Where a rank's program was when its call failed, if that is another line of the open call's file."""
    error = None if seen.ring is None else seen.ring.moment("exception")
    ours = user_frame(call.frames)
    if error is None or error.site is None or ours is None or error.site == ours.site:
        return None
    name, _, line = error.site.rpartition(":")
    if not line.isdigit() or not ours.site.startswith(f"{name}:"):
        return None
    return Frame(function=ours.function, file=ours.file, line=int(line))


def _is_new(scene: Scene, rank: int, call: Call) -> bool:
    """Whether nobody made a call from this line before, in a job that has come some way."""
    ring = scene.look.ranks[rank].ring
    if ring is None or not ring.has_history:
        return False
    calls = [c for flight in scene.flights.values() for c in history(flight) if c.site == call.site]
    return all(c.record == call.record for c in calls)


def abort_findings(scene: Scene, exits: Mapping[int, int]) -> list[Finding]:
    """A finding that says why a rank aborted, when it met a call below Python. See [Note: aborts]."""
    codes = {r: exits.get(r, seen.process.exit_code) for r, seen in scene.look.ranks.items()}
    if -signal.SIGABRT not in codes.values():
        return []
    for rank, flight in scene.flights.items():
        call = flight.head
        if call is None or call.is_p2p or call.is_completed or user_frame(call.frames) is None:
            continue
        others = {r: place for r, seen in scene.look.ranks.items() if r != rank and (place := _other_place(seen, call))}
        if not others or any(r in scene.flights and scene.flights[r].head is not None for r in others):
            continue
        there = next(iter(others.values()))
        if left_the_loop(call.frames, (there,), scene.line_of) is not None:
            return [_finding(scene, rank, call, others, Cause.UNEVEN_DATA)]
        if _is_new(scene, rank, call):
            return [_finding(scene, rank, call, others, Cause.EXTRA_COLLECTIVE)]
    return []


def _finding(scene: Scene, rank: int, call: Call, others: Mapping[int, Frame], cause: Cause) -> Finding:
    there = next(iter(others.values()))
    what = "it has left the loop that they are still in" if cause is Cause.UNEVEN_DATA else "nobody made it before"
    return hang_finding(
        "H152",
        f"rank {rank} was in {call.text} at {call.site}, which met a call below Python that {ranks_text(list(others))} "
        f"made at {there.site}: {what}",
        kind=Kind.MISSING,
        cause=cause,
        certainty=Certainty.INFERRED,
        severity=Severity.ERROR,
        ranks=(rank,),
        waiting=tuple(others),
        hosts=(scene.look.ranks[rank].host,),
        site=call.site,
        evidence=("a process aborted: gloo does so when calls of different size meet",),
        ruled_out=("the rank that aborted, for that alone: gloo aborts whichever has the smaller buffer",),
        next_step="give every rank the same number of batches: drop_last=True, a sampler that pads, or a Join context"
        if cause is Cause.UNEVEN_DATA
        else f"read the condition around {call.site}: it holds on rank {rank} alone",
    )
