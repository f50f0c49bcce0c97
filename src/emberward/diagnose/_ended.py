"""A job whose ranks all came to their end: calls that one is short of, or that met calls of other steps. Pure.

[Note: silent pairings]
Calls of one operation and size meet whatever step they belong to. A rank that leaves out those of one step, as after an
error that is caught and skipped, has its next ones meet those of its peers' step before; nothing is raised. Two counts
tell. Where each step of an optimizer has its own calls, from some step on those of the rank's steps are other ones than
those of its peers' steps: to the end, since ranks that are merely apart meet again. And when all programs have ended by
themselves, the rank has made fewer calls than its peers, whose last one failed and was caught, or was never waited for.
Fewer batches or micro-batches alone change neither count, nor does a rank that answers its peers' calls (Join).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from emberward.diagnose._calls import GroupPart, RankFlight
from emberward.diagnose._frames import Frame, LineOf, user_frame
from emberward.diagnose._groups import Groups, GroupView
from emberward.diagnose._handlers import swallower_around
from emberward.diagnose._order import MIN_ROUNDS, is_out_of_data
from emberward.diagnose._program import path_of
from emberward.diagnose._say import hang_finding, ranks_text, verb
from emberward.findings import Cause, Certainty, Finding, Kind, Severity

_UNEVEN = "give every rank the same number of batches: drop_last=True, a sampler that pads, or a Join context"


def has_ended(flights: Mapping[int, RankFlight]) -> bool:
    """Whether every program came to its end by itself, as the recorders tell: nobody waits any more."""
    return bool(flights) and all(flight.has_ended for flight in flights.values())


def silent_findings(flights: Mapping[int, RankFlight], groups: Groups, line_of: LineOf) -> Iterator[Finding]:
    """Yields a warning for each rank whose calls met those of other steps. See [Note: silent pairings]."""
    is_over = has_ended(flights)
    for view in groups:
        parts = {
            rank: part
            for rank in view.members
            if rank in flights and (part := flights[rank].groups.get(view.name)) and part.ranks in (None, view.members)
        }
        found = list(_steps_apart(parts, view, line_of))
        yield from found or (_short(flights, parts, view, line_of) if is_over else ())


# -- fewer calls at the end --------------------------------------------------------------------------------------------


def _short(
    flights: Mapping[int, RankFlight], parts: Mapping[int, GroupPart], view: GroupView, line_of: LineOf
) -> Iterator[Finding]:
    made = {rank: part.enqueued for rank, part in parts.items()}
    if len(set(made.values())) < 2:
        return
    (usual, number), *_ = Counter(made.values()).most_common()
    if 2 * number <= len(made):
        usual = max(made.values())
    for rank in sorted(made):
        peers = [other for other in made if made[other] == usual]
        if made[rank] == usual:
            continue
        is_short = made[rank] < usual
        longer = peers[0] if is_short else rank
        frames = _last_frames(flights[longer], parts[longer])
        frame = user_frame(frames)
        where = "" if frame is None else f" at {frame.site}"
        count = abs(usual - made[rank])
        fewer = f"{count} {verb(range(count), 'call', 'calls')} {'fewer' if is_short else 'more'}"
        is_uneven = is_out_of_data(flights[rank if is_short else peers[0]].data, flights[longer].data)
        guard = _guard_of_turns(frames, line_of)
        yield _finding(
            f"rank {rank} ended after {made[rank]} calls of {view.label}, {fewer} than {ranks_text(peers)}, and no "
            "error left a program: its calls met those of other turns of its peers",
            (rank, peers),
            Cause.UNEVEN_DATA if is_uneven else Cause.SKIPPED_COLLECTIVE if is_short else Cause.EXTRA_COLLECTIVE,
            (frame, None if is_uneven else guard),
            evidence=(
                f"call {made[longer]} of {view.label}{where} was never made by all of its ranks",
                *(() if guard is None else (f"an error on the way there is skipped at {guard.site}",)),
            ),
        )


def _last_frames(flight: RankFlight, part: GroupPart) -> tuple[Frame, ...]:
    """Where the rank made its newest call of the group; that of a backward where torch made it below Python."""
    call = part.call(part.enqueued)
    return flight.before if call is None or not call.frames else call.frames


# -- calls of other steps ----------------------------------------------------------------------------------------------


def _steps_apart(parts: Mapping[int, GroupPart], view: GroupView, line_of: LineOf) -> Iterator[Finding]:
    steps = {rank: _steps(part) for rank, part in parts.items()}
    if len(steps) < 2 or not all(steps.values()):
        return
    kinds = list({frozenset(each.items()): each for each in steps.values()}.values())
    if len(kinds) == 1:
        return
    counts = Counter(frozenset(each.items()) for each in steps.values())
    (key, number), *_ = counts.most_common()
    usual = dict(key)
    odd = [rank for rank, each in steps.items() if each != usual]
    if 2 * number <= len(steps):
        if len(steps) > 2:
            return
        parted = _odd_of_two(steps)
        if parted is None:
            return
        odd = [parted]
        usual = steps[next(rank for rank in steps if rank != parted)]
    peers = [rank for rank in steps if rank not in odd]
    for rank in odd:
        seq = _apart_from(steps[rank], usual)
        if seq is None:
            continue
        theirs = parts[peers[0]].call(seq)
        frames = () if theirs is None else theirs.frames
        frame, guard = user_frame(frames), _guard_of_turns(frames, line_of)
        yield _finding(
            f"rank {rank} left out calls of step {usual[seq]}: since call {seq} of {view.label} its calls meet those "
            "of other steps of its peers, and nothing is raised",
            (rank, peers),
            Cause.SKIPPED_COLLECTIVE,
            (frame, guard),
            evidence=(
                f"call {seq} of {view.label}: step {steps[rank][seq]} of rank {rank}, step {usual[seq]} of "
                f"{ranks_text(peers)}",
                "a step is one of the optimizer's; before, the calls of each step met those of the same step",
            ),
        )


def _steps(part: GroupPart) -> dict[int, int]:
    """The step of each kept collective; empty where one is not told."""
    if not part.entries or part.entries[-1].get("step") is None:
        return {}
    told = {entry["collective_seq_id"]: entry.get("step") for entry in part.entries}
    known = {seq: step for seq, step in told.items() if isinstance(step, int)}
    return known if len(known) == len(told) else {}


def _apart_from(odd: Mapping[int, int], usual: Mapping[int, int]) -> int | None:
    """The first call of the steps that stay apart to the end of what both made; None where none do."""
    common = sorted(odd.keys() & usual.keys())
    first = next((seq for seq in common if odd[seq] != usual[seq]), None)
    if first is None:
        return None
    before = [seq for seq in common if seq < first]
    # A step that makes no call of its own tells nothing of which calls are its.
    if any(usual[late] - usual[early] > 1 for early, late in pairwise(common)):
        return None
    behind = {usual[seq] for seq in common if seq >= first and usual[seq] < usual[common[-1]]}
    met = {usual[seq] for seq in common if odd[seq] != usual[seq]}
    is_lasting = behind <= met and len(behind) > MIN_ROUNDS
    return first if is_lasting and len({usual[seq] for seq in before}) > MIN_ROUNDS else None


def _odd_of_two(steps: Mapping[int, Mapping[int, int]]) -> int | None:
    """Which of two ranks made another number of calls in the step where they part than in the steps before."""
    (left, ours), (right, theirs) = steps.items()
    first = next((seq for seq in sorted(ours.keys() & theirs.keys()) if ours[seq] != theirs[seq]), None)
    if first is None:
        return None
    step = min(ours[first], theirs[first])
    numbers = [Counter(ours.values()), Counter(theirs.values())]
    earlier = {count[each] for count in numbers for each in count if min(count) < each < step}
    odd = [rank for rank, count in zip((left, right), numbers, strict=True) if count[step] not in earlier]
    return odd[0] if len(odd) == 1 else None


# -- the same for both -------------------------------------------------------------------------------------------------


def _guard_of_turns(frames: Sequence[Frame], line_of: LineOf) -> Frame | None:
    """What goes on with the next turn after an error at a call: not what ends the loop with it."""
    is_in_turn = False
    for name, place in path_of(tuple(frames), line_of).items():
        line = swallower_around(place)
        is_in_turn |= bool(place.loops)
        is_around = line is not None and any(loop.lineno < line <= (loop.end_lineno or 0) for loop in place.loops)
        if line is not None and (is_around or not is_in_turn):
            return Frame(function=name[1], file=name[0], line=line)
    return None


def _finding(
    message: str,
    ranks: tuple[int, Sequence[int]],
    cause: Cause,
    at: tuple[Frame | None, Frame | None],
    *,
    evidence: Sequence[str],
) -> Finding:
    """The warning; `at`: the line of the call, and of what skips an error on the way to it."""
    frame, guard = at
    is_swallowed = guard is not None and cause is Cause.SKIPPED_COLLECTIVE
    place = guard if is_swallowed else frame
    site = None if place is None else place.site
    return hang_finding(
        "H104",
        message,
        kind=Kind.MISMATCH if cause is Cause.EXTRA_COLLECTIVE else Kind.MISSING,
        cause=Cause.SWALLOWED_EXCEPTION if is_swallowed else cause,
        certainty=Certainty.OBSERVED,
        severity=Severity.WARNING,
        ranks=[ranks[0]],
        waiting=ranks[1],
        site=site,
        evidence=evidence,
        ruled_out=("a rank with fewer batches that answers the calls of its peers: the counts of calls differ",),
        next_step=_UNEVEN
        if cause is Cause.UNEVEN_DATA
        else f"raise on every rank, or have all ranks agree to skip the step, at {site}"
        if is_swallowed
        else f"read the condition around {site}: it differs on rank {ranks[0]} alone",
    )
