"""The judge of stacks: the process that does something else than its peers, compared within its role."""

import ast
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from emberward.diagnose._creation import is_creating
from emberward.diagnose._frames import Frame, LineOf, code_frame, no_source, user_frame
from emberward.diagnose._mismatch import other_roots_finding
from emberward.diagnose._parting import kept_by_rank, left_the_loop, parting
from emberward.diagnose._program import are_branches, called_name, calls_in, covers, is_guarded, place_at
from emberward.diagnose._rank_tests import is_written, root_of_its_own
from emberward.diagnose._say import cannot_tell, hang_finding, no_alarm, verb
from emberward.diagnose._source import tie_break_by_text
from emberward.diagnose._states import next_of_state
from emberward.diagnose._waits import (
    Reading,
    class_of,
    finding_on,
    ranks_of,
    severity_of,
    stack_evidence,
    stuck_worker,
    who_text,
)
from emberward.events import HELPERS, STUCK, WAITING, HostState, Site
from emberward.findings import Cause, Certainty, Finding, Kind, Severity

MIN_CROWD = 2
"""Fewest alike processes against which one other is odd."""
_ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter", "broadcast_object_list", "scatter_object_list"})
MAX_ODD_SHARE = 0.25
"""Largest share of waiting processes that may be odd among waiting ones, when no busy one explains them."""


def _crowds(readings: Sequence[Reading]) -> list[str]:
    """Evidence: what each crowd of alike processes does, the largest first."""
    crowds: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        crowds[reading.text].append(reading)
    rows = sorted(crowds.items(), key=lambda item: -len(item[1]))
    return [f"{len(group):3d} x {text}: {who_text(group)}" for text, group in rows[:8]]


def judge_stacks(
    readings: Sequence[Reading],
    workers: dict[int, tuple[Reading, ...]],
    line_of: LineOf,
    *,
    is_lasting: bool = False,
) -> list[Finding]:
    """Findings from stacks alone. `workers`: readings of child processes by their parent's pid.

    `is_lasting`: the same stacks were seen long enough for a hang. Without that, one snapshot at a rank that sleeps,
    reads or computes is a warning, and at one that waits for a lock or its data worker an error.
    """
    # A child of a rank is no rank; one of a launcher may be.
    mains = {r.process.pid for r in readings if r.kind not in HELPERS and r.process.pid is not None}
    ranks = [r for r in readings if r.kind not in HELPERS and r.process.parent_pid not in mains]
    waiting = [r for r in ranks if r.kind in WAITING] or _quiet_crowd(ranks)
    busy = [r for r in ranks if r not in waiting]
    if not ranks:
        return []
    if len(ranks) == 1:
        return [_alone(ranks[0])]
    if busy and waiting and (len(busy) <= len(waiting) or _polls_alike(busy)):
        return _busy_findings(busy, waiting, ranks, workers, is_lasting=is_lasting)
    if busy and waiting:
        return [_mostly_busy(busy, waiting, ranks)]
    if busy:
        return [_all_busy(busy)]
    return _all_waiting(waiting, line_of)


def _quiet_crowd(ranks: list[Reading]) -> list[Reading]:
    """The processes that idle at one line below Python, when they are most: a wait without source text looks so."""
    sites = Counter(r.place for r in ranks if r.kind is HostState.UNKNOWN and r.place is not None)
    if not sites:
        return []
    site, size = sites.most_common(1)[0]
    crowd = [r for r in ranks if r.kind is HostState.UNKNOWN and r.place == site]
    return crowd if MIN_CROWD <= size < len(ranks) < 2 * size else []


def _polls_alike(busy: list[Reading]) -> bool:
    """Whether all that wait in no call ask at one line for what does not come: how many they are excuses none."""
    return busy[0].polls is not None and len({(reading.polls, reading.place) for reading in busy}) == 1


def _busy_findings(
    busy: list[Reading],
    waiting: list[Reading],
    ranks: list[Reading],
    workers: dict[int, tuple[Reading, ...]],
    *,
    is_lasting: bool,
) -> list[Finding]:
    together: dict[tuple[HostState, str | None], list[Reading]] = defaultdict(list)
    for reading in busy:
        together[(reading.kind, reading.place)].append(reading)
    found = []
    for (kind, _), group in together.items():
        first = group[0]
        children = workers.get(first.process.pid or -1, ())
        worker = stuck_worker(children)
        found.append(
            finding_on(
                "H106",
                f"{verb(group, '', 'each of ')}{who_text(group)} {first.text}, "
                f"while {len(waiting)} of {len(ranks)} processes wait for their peers",
                group,
                waiting=waiting,
                kind=Kind.HANG,
                cause=first.cause,
                certainty=Certainty.INFERRED,
                severity=severity_of(group, is_lasting=is_lasting),
                site=first.site if worker is None or worker.site is None else worker.site,
                evidence=(*stack_evidence(first, children), *_crowds(ranks)),
                ruled_out=(f"the other {len(waiting)}: each waits in a call that needs its peers",),
                next_step=next_of_state(kind, who_text(group)),
            )
        )
    return found


def _alone(reading: Reading) -> Finding:
    return cannot_tell(
        f"one stack alone ({who_text([reading])} {reading.text}), the stacks of its peers are missing",
        cause=reading.cause,
        evidence=stack_evidence(reading, ()),
        next_step="take the stacks of all ranks at one time: py-spy dump --pid PID on every node",
    )


def _mostly_busy(busy: list[Reading], waiting: list[Reading], ranks: list[Reading]) -> Finding:
    return no_alarm(
        "H110",
        f"no hang seen: {len(busy)} of {len(ranks)} processes do work of their own, {len(waiting)} wait for them",
        evidence=_crowds(ranks),
        next_step="take the stacks again ten seconds later and explain both: what does not move is stuck",
    )


def _served(reading: Reading) -> str | None:
    """The line at which another thread of the process waits for a peer; None when none does."""
    main = reading.process.main
    for thread in reading.process.threads:
        code = user_frame(thread.frames) or code_frame(thread.frames)
        if thread is main or code is None:
            continue
        if class_of(thread, lambda _: None) in (HostState.P2P, HostState.COLLECTIVE):
            return code.site
    return None


def _common_site(readings: Sequence[Reading]) -> str | None:
    """The line at which all are; None when there are several."""
    sites = {reading.site for reading in readings}
    return sites.pop() if len(sites) == 1 else None


def _all_busy(busy: list[Reading]) -> Finding:
    kinds = {reading.kind for reading in busy}
    lead = busy[0]
    served = [_served(reading) for reading in busy]
    creates = all(is_creating(reading.process.main) for reading in busy)
    if len(busy) > 1 and kinds == {HostState.LOCK} and all(served):
        return hang_finding(
            "H133",
            f"all {len(busy)} processes wait for a thread of their own, which waits for a peer: {lead.text}, and its "
            f"thread is at {served[0]}",
            cause=Cause.CYCLE_CREDIT,
            waiting=ranks_of(busy),
            evidence=_crowds(busy),
            ruled_out=("a busy rank: no main thread and no thread that it waits for is free",),
            next_step=f"let the queue at {lead.site} hold all that is put before its peer answers",
        )
    if len(kinds) == 1 and lead.kind in STUCK:
        return hang_finding(
            "H106",
            f"all {len(busy)} processes alike: each {lead.text}",
            kind=Kind.HANG,
            # All create a group and none comes through: what each takes for the next group is not the same one.
            cause=Cause.MISSING_GROUP if creates else lead.cause,
            certainty=Certainty.INFERRED,
            severity=Severity.WARNING,
            site=lead.site if creates else _common_site(busy),
            evidence=_crowds(busy),
            ruled_out=("one guilty rank: all do the same",),
            next_step="call new_group on every rank of the job, members or not, in the same order"
            if creates
            else "look at what they share: the file system, the store, the data",
        )
    return no_alarm(
        "H110",
        f"no hang seen: none of {len(busy)} processes waits for a peer",
        evidence=_crowds(busy),
        next_step="take the stacks again ten seconds later and explain both",
    )


def _all_waiting(waiting: list[Reading], line_of: LineOf) -> list[Finding]:
    """Everybody waits for peers: the odd one out among alike ones, or a ring of sends and receives."""
    if all(reading.kind is HostState.P2P for reading in waiting):
        return [
            hang_finding(
                "H111",
                f"all {len(waiting)} processes wait in sends or receives, and none is free to answer",
                cause=Cause.CYCLE_P2P,
                waiting=ranks_of(waiting),
                # All lines belong to it: the one at which most are.
                site=Counter(reading.site for reading in waiting).most_common(1)[0][0],
                evidence=_crowds(waiting),
                ruled_out=("a busy rank: every process waits",),
                next_step="order sends before receives on every second rank, or issue both in one batch",
            )
        ]
    sites = Counter(reading.place for reading in waiting)
    p2p = [reading for reading in waiting if reading.kind is HostState.P2P]
    rest = [reading for reading in waiting if reading.kind is not HostState.P2P]
    if p2p and len(p2p) < len(rest) and len({r.place for r in rest}) == 1 and len(p2p) <= max(1, len(rest) // 2):
        return [_unmatched(p2p, rest)]
    crowd = sites.most_common(1)[0][0]
    odd = [reading for reading in waiting if reading.place != crowd]
    if not odd:
        return [_alike(waiting, line_of)]
    most = [r for r in waiting if r.place == crowd]
    if len({r.place for r in odd}) == 1 and (told := _by_rank(odd, most, line_of)) is not None:
        return [told]
    parted = parting(odd[0].frames, most[0].frames)
    if len(odd) > len(waiting) * MAX_ODD_SHARE or len({r.place for r in odd}) > 1:
        if len({r.place for r in odd}) == 1 and (told := _by_text(odd, most, line_of)) is not None:
            return [told]
        is_two = len(odd) >= MIN_CROWD and len(sites) == 2 and parted is not None
        return [_crossed(odd, most) if is_two and not _has_root([*odd, *most], line_of) else _unclear(waiting)]
    first = odd if parted is not None and (parted[0].line or 0) < (parted[1].line or 0) else most
    places = [place_at(frame, line_of) for frame in parted or (None, None)]
    is_choice = are_branches(*places) or is_guarded(*places)
    if parted is not None and _has_root(first, line_of) and not is_choice:
        return [_unclear(waiting)]
    return [_ahead(odd, most, line_of)]


def _by_rank(odd: list[Reading], most: list[Reading], line_of: LineOf) -> Finding | None:
    """The finding where the rank alone decides that one side comes to its call, and not whether the other does.

    Not of a send or receive, nor where that call has a group of its own: others may have to come there too.
    """
    for guilty, rest in ((odd, most), (most, odd)):
        test = kept_by_rank(rest[0].frames, guilty[0].frames, line_of)
        if test is None or kept_by_rank(guilty[0].frames, rest[0].frames, line_of) is not None:
            continue
        is_p2p = any(reading.kind is HostState.P2P for reading in (*odd, *most))
        if is_p2p or len(guilty) > len(rest) or _has_group(guilty[0], line_of) or _has_root([*odd, *most], line_of):
            return None
        why = f"only a condition on the rank leads there ({test.site}): {(line_of(test) or '').strip()}"
        finding = _ahead(guilty, rest, line_of)
        return replace(finding, kind=Kind.MISMATCH, cause=Cause.EXTRA_COLLECTIVE, evidence=(*finding.evidence, why))
    return None


def _calls_at(reading: Reading, line_of: LineOf) -> list[ast.Call]:
    """The calls of the line that the user wrote."""
    place = place_at(user_frame(reading.frames), line_of)
    return [] if place is None else [call for call in calls_in(place.tree) if covers(call, place.line)]


def _has_group(reading: Reading, line_of: LineOf) -> bool:
    """Whether the user's line gives a call a group."""
    return any("group" in (word.arg or "") for call in _calls_at(reading, line_of) for word in call.keywords)


def _by_text(odd: list[Reading], most: list[Reading], line_of: LineOf) -> Finding | None:
    """The finding on two sides of which the text tells the odd one: it left a loop, or stands under a condition."""
    places = [user_frame(side[0].frames) for side in (odd, most)]
    sites = [
        None if f is None or f.line is None else Site(file=f.file, line=f.line, function=f.function) for f in places
    ]
    if sites[0] is None or sites[1] is None or _has_root([*odd, *most], line_of):
        return None
    if left_the_loop(odd[0].frames, most[0].frames, line_of) is not None:
        return _ahead(odd, most, line_of)
    # Where most have left it, who stays may have more turns, or waits for somebody who is not seen.
    if len(most) == len(odd) and left_the_loop(most[0].frames, odd[0].frames, line_of) is not None:
        return _ahead(most, odd, line_of)
    odd_side = tie_break_by_text(line_of)
    # Where one side's line called the other's, as a trainer's does a callback, a condition in the callback tells.
    inner = [n for n, this in enumerate((odd, most)) if places[1 - n] in this[0].frames]
    found = odd_side(sites[0], sites[1])
    if found is None and len(inner) == 1:
        lone = odd_side(sites[inner[0]] or sites[0], None)
        found = None if lone is None else replace(lone, is_first=inner[0] == 0)
    if found is None:
        return None
    guilty, rest = (odd, most) if found.is_first else (most, odd)
    seen = {reading.process.rank for reading in (*odd, *most)}
    if len(guilty) > len(rest) or (len(guilty) == len(rest) and None not in seen and seen != {*range(len(seen))}):
        # What most of them do is no departure: the few may have left the call out. Where sides are equal, ranks that
        # nobody saw decide.
        return None
    finding = _ahead(guilty, rest, line_of)
    if found.cause is Cause.SKIPPED_COLLECTIVE:
        return replace(finding, kind=Kind.MISSING, cause=found.cause, evidence=(*finding.evidence, found.why))
    return replace(finding, kind=Kind.MISMATCH, cause=found.cause, evidence=(*finding.evidence, found.why))


def _has_root(readings: Sequence[Reading], line_of: LineOf) -> bool:
    """Whether one of them is in a call with a root, which a rank may pass while others stay in it for ever.

    Not where the text has one root for all, as a package's own calls have.
    """
    return any(
        frame.function in _ROOTED and frame.file.endswith("distributed_c10d.py") and not _has_one_root(reading, line_of)
        for reading in readings
        for frame in reading.frames
    )


def _has_one_root(reading: Reading, line_of: LineOf) -> bool:
    if reading.inner is not None:
        return True
    place, calls = place_at(user_frame(reading.frames), line_of), _calls_at(reading, line_of)
    roots = [each.value for call in calls for each in call.keywords if each.arg in ("src", "dst")]
    roots = roots or [call.args[1] for call in calls if called_name(call) in _ROOTED and len(call.args) > 1]
    return place is not None and len(roots) == 1 and is_written(roots[0], place)


def _unmatched(p2p: list[Reading], rest: list[Reading]) -> Finding:
    return finding_on(
        "H109",
        f"{who_text(p2p)} {verb(p2p, 'waits', 'wait')} in a send or receive at {p2p[0].site} that nobody answers; "
        "the others are in a collective",
        p2p,
        waiting=rest,
        cause=Cause.UNMATCHED_P2P,
        evidence=(*stack_evidence(p2p[0], ()), *_crowds([*p2p, *rest])),
        ruled_out=("a busy rank: every process waits",),
        next_step=f"read {p2p[0].site}: which rank is its peer, and does that rank make the partner call",
    )


def _ahead(odd: list[Reading], crowd: list[Reading], line_of: LineOf) -> Finding:
    """Few wait in another call than the crowd: past it, before it, or in another branch."""
    parted = parting(odd[0].frames, crowd[0].frames)
    cause, kind, what = Cause.SKIPPED_COLLECTIVE, Kind.MISSING, "another call than the one"
    if left_the_loop(odd[0].frames, crowd[0].frames, line_of) is not None:
        # Why, the text tells: `refine`.
        what = "a call behind the loop"
    elif parted is not None and are_branches(*(place_at(frame, line_of) for frame in parted)):
        cause, kind, what = Cause.DIFFERENT_OP, Kind.MISMATCH, "the other branch of the choice"
    elif parted is not None and (parted[0].line or 0) < (parted[1].line or 0):
        cause, kind, what = Cause.EXTRA_COLLECTIVE, Kind.MISMATCH, "a call before the one"
    elif parted is not None and _is_inside(odd[0], crowd[0], parted) and place_at(parted[0], line_of) is None:
        # The others may be in the next turn: a function that logs, saves or evaluates on one rank calls them all.
        cause, kind, what = Cause.EXTRA_COLLECTIVE, Kind.MISMATCH, "a call in a function that the others are not in"
    elif parted is not None:
        what = "a call behind the one"
    if cause is Cause.SKIPPED_COLLECTIVE and odd[0].kind is not HostState.P2P and _all_in_p2p(crowd):
        cause, kind = Cause.UNMATCHED_P2P, Kind.MISSING
    return finding_on(
        "H104",
        f"{who_text(odd)} {verb(odd, 'waits', 'wait')} at {odd[0].site}, in {what} at {crowd[0].site} in which "
        f"{len(crowd)} {verb(crowd, 'other waits', 'others wait')}",
        odd,
        waiting=crowd,
        kind=kind,
        cause=cause,
        evidence=(*stack_evidence(odd[0], ()), *_crowds([*odd, *crowd])),
        ruled_out=("a busy rank: every process waits",),
        next_step="explain the flight-recorder dumps of the same moment: they tell which call differs",
    )


def _all_in_p2p(readings: Sequence[Reading]) -> bool:
    return all(reading.kind is HostState.P2P for reading in readings)


def _is_inside(odd: Reading, other: Reading, parted: tuple[Frame, Frame]) -> bool:
    """Whether the odd one is in a function that it called from where they part, and the other is in none there."""
    here, there = (user_frame(reading.frames) for reading in (odd, other))
    return here != parted[0] and there == parted[1]


def _crossed(odd: list[Reading], crowd: list[Reading]) -> Finding:
    """Two crowds wait in two calls of one function, and nobody is free: each lacks the other."""
    return hang_finding(
        "H111",
        f"{who_text(crowd)} wait at {crowd[0].site} and {who_text(odd)} {verb(odd, 'waits', 'wait')} at "
        f"{odd[0].site}; nobody is free, so each waits for the other",
        cause=Cause.CYCLE_COLLECTIVE,
        severity=Severity.WARNING,
        waiting=ranks_of([*odd, *crowd]) if ranks_of(odd) and ranks_of(crowd) else (),
        evidence=_crowds([*odd, *crowd]),
        ruled_out=("a busy rank: every process waits",),
        next_step="explain the flight-recorder dumps of the same moment: they tell the order of the calls",
    )


def _alike(waiting: list[Reading], line_of: LineOf = no_source) -> Finding:
    own_root = root_of_its_own(place_at(user_frame(waiting[0].frames), line_of))
    if own_root is not None and any(frame.function in _ROOTED for frame in waiting[0].frames):
        crowds, ranks = _crowds(waiting), ranks_of(waiting)
        return other_roots_finding(own_root, waiting[0].site, ranks, crowds, severity=Severity.WARNING)
    return cannot_tell(
        f"all {len(waiting)} processes wait alike ({waiting[0].text})",
        site=_common_site(waiting),
        waiting=ranks_of(waiting),
        evidence=_crowds(waiting),
        ruled_out=("a busy rank: every process that left a stack waits",),
        next_step="look for a rank without a stack; else it is the device or the link: fetch the flight-recorder dumps",
    )


def _unclear(waiting: list[Reading]) -> Finding:
    # Who sits in a collective answers no send and no receive, and nobody is free to.
    is_p2p = {reading.kind is HostState.P2P for reading in waiting} == {True, False}
    return replace(
        _alike(waiting),
        cause=Cause.UNMATCHED_P2P if is_p2p else Cause.UNKNOWN,
        message=f"cannot tell: all {len(waiting)} processes wait, in {len({r.place for r in waiting})} places",
        next="compare what these lines wait for; flight-recorder dumps of the same moment tell the order of the calls",
    )
