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
from emberward.sources.dumps import Frame, hang_finding, left_the_loop, ranks_text
from emberward.sources.live._look import OpenCall, RankLook
from emberward.sources.live._scene import Scene


def _place(call: OpenCall) -> Frame:
    return Frame(function=call.function, file=call.file, line=call.line)


def _other_place(seen: RankLook, call: OpenCall) -> Frame | None:
    """Where a rank's program was when its call failed, if that is another line of the open call's file."""
    error = None if seen.ring is None else seen.ring.moment("exception")
    ours = _place(call)
    if error is None or error.site is None or error.site == ours.site:
        return None
    name, _, line = error.site.rpartition(":")
    if not line.isdigit() or not ours.site.startswith(f"{name}:"):
        return None
    return Frame(function=ours.function, file=ours.file, line=int(line))


def abort_findings(scene: Scene, exits: Mapping[int, int]) -> list[Finding]:
    """A finding that says why a rank aborted, when it met a call below Python. See [Note: aborts]."""
    codes = {r: exits.get(r, seen.process.exit_code) for r, seen in scene.look.ranks.items()}
    if -signal.SIGABRT not in codes.values():
        return []
    rings = {rank: seen.ring for rank, seen in scene.look.ranks.items() if seen.ring is not None}
    calls = {rank: ring.open_call for rank, ring in rings.items() if ring.open_call is not None}
    if len(calls) != 1:
        return []
    ((rank, call),) = calls.items()
    others = {r: place for r, seen in scene.look.ranks.items() if r != rank and (place := _other_place(seen, call))}
    if not others:
        return []
    there = next(iter(others.values()))
    if left_the_loop((_place(call),), (there,), scene.line_of) is not None:
        return [_finding(scene, rank, call, others, Cause.UNEVEN_DATA)]
    if call.is_new and rings[rank].has_history:
        return [_finding(scene, rank, call, others, Cause.EXTRA_COLLECTIVE)]
    return []


def _finding(scene: Scene, rank: int, call: OpenCall, others: Mapping[int, Frame], cause: Cause) -> Finding:
    there, site = next(iter(others.values())), _place(call).site
    what = "it has left the loop that they are still in" if cause is Cause.UNEVEN_DATA else "nobody made it before"
    return hang_finding(
        "H152",
        f"rank {rank} was in {call.text} at {site}, which met a call below Python that {ranks_text(list(others))} "
        f"made at {there.site}: {what}",
        kind=Kind.MISSING,
        cause=cause,
        certainty=Certainty.INFERRED,
        severity=Severity.ERROR,
        ranks=(rank,),
        waiting=tuple(others),
        hosts=(scene.look.ranks[rank].host,),
        site=site,
        evidence=("a process aborted: gloo does so when calls of different size meet",),
        ruled_out=("the rank that aborted, for that alone: gloo aborts whichever has the smaller buffer",),
        next_step="give every rank the same number of batches: drop_last=True, a sampler that pads, or a Join context"
        if cause is Cause.UNEVEN_DATA
        else f"read the condition around {site}: it holds on rank {rank} alone",
    )
