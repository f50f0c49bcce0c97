"""Why a supervised command failed: what its ranks' rings and exit codes say, as findings."""

import shlex
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.dumps import crash_site
from emberward.sources.ring import Mark, MarkKind, RingView, crash_file, read_ring
from emberward.supervise._death import RankEnd, death_finding, first_death, how_it_ended
from emberward.supervise._members import Member

ROOTED = frozenset({Kind.MISMATCH, Kind.MISSING, Kind.DEADLOCK, Kind.LINK})
DIFFER = frozenset({"M101", "M102", "H152"})
"""Verdicts on calls that met and differ, also when the judge knows why: one was left out, or is one too many."""
SEEN_LATE_S = 2.0
"""How much later than it happened an end may have been seen."""
MAY_FOLLOW = frozenset({Cause.EXCEPTION, Cause.SEGFAULT})
"""Deaths that a mismatch of calls brings about: gloo raises or aborts, and may do so in an innocent rank."""


def roots(verdicts: Sequence[Finding], *, death: Cause, certainty: Certainty) -> list[Finding]:
    """The verdicts that say why a rank died, as far as such a death can follow from them.

    [Note: root and death]
    Rings that end with a rank's death look like a call that is missing, or like a deadlock: the others wait for what
    never came. So such a verdict is the root only when every death looks like an echo, as when the time-out of a
    deadlock, or of a link that was cut, ends all ranks. A mismatch of calls makes gloo raise or abort, and explains
    deaths of these two kinds. A rank that was killed, ran out of memory or left explains itself.
    """
    if certainty is Certainty.INFERRED:
        return [each for each in verdicts if each.kind in ROOTED]
    if death in MAY_FOLLOW:
        return [each for each in verdicts if each.kind is Kind.MISMATCH or each.code in DIFFER]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class RingFacts:
    """What a supervisor needs of a ring. `failure` is the exception that escaped the rank's program."""

    num_calls: int
    step: int | None
    num_saves: int
    saved_unix: float | None
    failure: Mapping[str, Any] | None
    crash_site: str | None = None


def read_facts(ring: Path) -> RingFacts | None:
    """The facts of a ring as it is now; None when it cannot be read. Never raises."""
    view = read_ring(ring)
    return facts_of(view) if view.is_readable else None


def read_last_facts(ring: Path) -> RingFacts | None:
    """The same of a process that has ended, and where it crashed."""
    facts = read_facts(ring)
    return None if facts is None else replace(facts, crash_site=crash_site(crash_file(ring)))


def facts_of(view: RingView) -> RingFacts:
    """The facts of a ring's view."""
    saves = [mark.ended_ns for mark in view.marks if mark.kind is MarkKind.SAVE and mark.ended_ns is not None]
    escaped = [mark for mark in view.marks if mark.kind is MarkKind.EXCEPTION]
    return RingFacts(
        num_calls=view.num_calls,
        step=view.step,
        num_saves=len(saves),
        saved_unix=_unix(view, max(saves)) if saves else None,
        failure=_failure(view, escaped[-1]) if escaped else None,
    )


def _unix(view: RingView, at_ns: int) -> float:
    return view.read_unix - (view.read_ns - at_ns) / 1e9


def _failure(view: RingView, mark: Mark) -> dict[str, Any]:
    kind, _, message = (mark.name or "exception").partition(": ")
    site = None if mark.site is None else f"{mark.site.file}:{mark.site.line}"
    return {"type": kind, "message": message, "time_unix": _unix(view, mark.began_ns), "site": site}


def rank_end(member: Member, facts: RingFacts | None) -> RankEnd:
    """How a member ended, in the words of the judge of deaths."""
    ended = member.ended
    raised = facts.failure if facts is not None and ended is not None and _may_have_raised(ended.exit_code) else None
    return RankEnd(
        rank=member.rank,
        pid=member.process.pid,
        host=socket.gethostname(),
        exit_code=None if ended is None else ended.exit_code,
        gone_unix=None if ended is None else ended.seen_unix,
        failure=raised,
    )


def _may_have_raised(exit_code: int | None) -> bool:
    """Whether a process that ended so may have ended by an exception: not with 0, and not when a signal killed it."""
    return exit_code is None or exit_code > 0


def judge_end(
    *,
    code: int,
    command: Sequence[str],
    members: Sequence[Member],
    facts: Mapping[int, RingFacts],
    verdicts: Sequence[Finding],
    due: Finding | None,
    ended_by_us: bool,
    standing: Sequence[Finding] = (),
) -> tuple[Finding, ...]:
    """The findings on a failed attempt, the cause first; a death that follows from it is a notice.

    `verdicts` are the watcher's; for `due` we ended it. `standing`: what the watcher said last of ranks that stood
    still, notices too.

    What died after we ended the job died of that. Else a verdict that tells why a rank died comes before the death, and
    the command's own end is told when no rank's is known. See [Note: root and death].
    """
    if due is not None:
        return (due, *(each for each in verdicts if each != due))
    ends = [rank_end(member, facts.get(member.process.pid)) for member in members]
    first = first_death(ends)
    if first is None:
        return tuple(verdicts) or (_command_failed(code, command),)
    culprit, certainty = first
    bystanders = [end for end in ends if end.rank != culprit.rank]
    found = death_finding(culprit, certainty, bystanders)
    if culprit.failure is not None and isinstance(culprit.failure.get("site"), str):
        found = replace(found, site=culprit.failure["site"])
    told = None if culprit.pid is None else facts.get(culprit.pid)
    if found.cause is Cause.SEGFAULT and told is not None and told.crash_site is not None:
        # A data worker's crash lies in the same file: a rank that was killed did not crash there.
        found = replace(found, site=told.crash_site)
    if culprit.failure is None and found.cause is Cause.MAIN_EXITED and culprit.pid not in facts:
        # Without a ring nobody saw whether it raised or left.
        found = replace(found, cause=Cause.UNKNOWN)
    roots_found = roots(verdicts, death=found.cause, certainty=certainty)
    if certainty is Certainty.INFERRED and not roots_found:
        left = _left_early(ends, culprit)
        roots_found = _behind_a_time_out(standing, {end.rank for end in ends if end.failure is not None})
        if left is not None and not roots_found:
            found = _left_finding(left, culprit)
    if ended_by_us:
        lines = "its launcher did not end the job within seconds: SIGTERM, then SIGKILL, by pid"
        found = replace(found, evidence=(*found.evidence, lines))
    if roots_found:
        line = f"it follows from {roots_found[0].code}: {roots_found[0].message[:160]}"
        found = replace(found, severity=Severity.NOTICE, evidence=(*found.evidence, line))
    return (*roots_found, found)


def _left_early(ends: Sequence[RankEnd], culprit: RankEnd) -> RankEnd | None:
    """The rank that ended without an error before all failures, each of which is an echo; None when there is none."""
    left = [e for e in ends if e.exit_code == 0 and e.died_unix <= culprit.died_unix + SEEN_LATE_S]
    return min(left, key=lambda end: end.died_unix, default=None)


def _left_finding(left: RankEnd, echo: RankEnd) -> Finding:
    return Finding(
        code="L102",
        severity=Severity.ERROR,
        kind=Kind.CRASH,
        cause=Cause.MAIN_EXITED,
        certainty=Certainty.OBSERVED,
        culprit_ranks=(left.rank,),
        waiting_ranks=(echo.rank,),
        hosts=() if left.host is None else (left.host,),
        message=f"rank {left.rank} ended first, with exit code 0, while rank {echo.rank} still needed it",
        evidence=(f"rank {echo.rank} then failed as a consequence: {how_it_ended(echo)[:160]}",),
        ruled_out=(f"rank {echo.rank}: its error names a lost peer",),
        next=f"find why rank {left.rank} leaves its program earlier than the others: fewer batches, or an early return",
    )


def _behind_a_time_out(standing: Sequence[Finding], dead: set[int]) -> list[Finding]:
    """The notices on ranks that others waited for, and that still live, when the job's own time-out ended these."""
    line = "the job's own time-out, not ours, ended the ranks that waited"
    waits = [f for f in standing if f.kind is Kind.HANG and f.culprit_ranks and not dead & set(f.culprit_ranks)]
    return [replace(f, severity=Severity.ERROR, evidence=(*f.evidence, line)) for f in waits]


def _command_failed(code: int, command: Sequence[str]) -> Finding:
    """The finding for a command that failed and of whose ranks nothing is known."""
    how = f"exit code {code}" if code >= 0 else f"killed by {_signal_name(-code)}"
    crash = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}
    cause = Cause.MAIN_EXITED if code >= 0 else Cause.SEGFAULT if -code in crash else Cause.KILLED
    return Finding(
        code="L106",
        severity=Severity.ERROR,
        kind=Kind.CRASH,
        cause=cause,
        certainty=Certainty.OBSERVED,
        message=f"the command failed: {how}",
        hosts=(socket.gethostname(),),
        evidence=(shlex.join(command),),
        ruled_out=("a rank that died first: no rank process was seen to fail",),
        next="read the command's own output above",
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
