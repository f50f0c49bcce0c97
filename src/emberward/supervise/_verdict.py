"""Why a supervised command failed: what its ranks' rings and exit codes say, as findings."""

import shlex
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from emberward.diagnose import (
    after_roots,
    arrival_as,
    by_short_name,
    classify,
    conclude,
    roots,
    short_path,
    with_source,
)
from emberward.events import RankEnd
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.dumps import crash_site, source_lines
from emberward.sources.ring import Mark, MarkKind, RingView, crash_file, read_ring
from emberward.supervise._death import RankRecord, death_finding, death_text, first_death
from emberward.supervise._host import seen_here
from emberward.supervise._members import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class RingFacts:
    """What a supervisor needs of a ring. `failure` is the exception that escaped the rank's program.

    `last_site`: where it left its program, or else made its last call. The last four are those of a `RankRecord`.
    """

    num_calls: int
    step: int | None
    num_saves: int
    saved_unix: float | None
    failure: Mapping[str, Any] | None
    crash_site: str | None = None
    last_site: str | None = None
    left_unix: float | None = None
    alive_unix: float | None = None
    has_data_end: bool = False
    needs: tuple[int, ...] = ()


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
        last_site=_last_site(view),
        left_unix=next((_unix(view, m.began_ns) for m in view.marks if m.kind is MarkKind.MAIN_EXITED), None),
        alive_unix=None if view.heartbeat_age_s is None else view.read_unix - view.heartbeat_age_s,
        has_data_end=any(mark.kind is MarkKind.DATA_END for mark in view.marks),
        needs=_needs(view),
    )


def _needs(view: RingView) -> tuple[int, ...]:
    """The ranks of the group of the newest call while that is open; all ranks in a backward."""
    last = view.events[-1] if view.events else None
    if last is not None and last.completed_ns is None and last.ref not in view.failures:
        group = getattr(last.body, "group", None)
        return () if group is None else group.ranks
    is_backward = any(mark.kind is MarkKind.BACKWARD for mark in view.open_marks)
    return tuple(range(view.world_size or 0)) if is_backward else ()


def _last_site(view: RingView) -> str | None:
    left = [mark.site for mark in view.marks if mark.kind is MarkKind.MAIN_EXITED and mark.site is not None]
    made = [event.site for event in view.events if event.site is not None]
    sites = left or made
    return f"{sites[-1].file}:{sites[-1].line}" if sites else None


def _unix(view: RingView, at_ns: int) -> float:
    return view.read_unix - (view.read_ns - at_ns) / 1e9


def _failure(view: RingView, mark: Mark) -> dict[str, Any]:
    kind, _, message = (mark.name or "exception").partition(": ")
    site = None if mark.site is None else f"{mark.site.file}:{mark.site.line}"
    return {"type": kind, "message": message, "time_unix": _unix(view, mark.began_ns), "site": site}


def rank_record(member: Member, facts: RingFacts | None) -> RankRecord:
    """How a member ended, in the words of the judge of deaths. With code 0 nothing that it raised had left it."""
    ended = member.ended
    return RankRecord(
        rank=member.rank,
        pid=member.process.pid,
        host=socket.gethostname(),
        exit_code=None if ended is None else ended.exit_code,
        gone_unix=None if ended is None else ended.seen_unix,
        failure=facts.failure if facts is not None and ended is not None and ended.exit_code != 0 else None,
        is_recorded=facts is not None,
        left_unix=None if facts is None or ended is None or ended.exit_code != 0 else facts.left_unix,
        alive_unix=None if facts is None else facts.alive_unix,
        has_data_end=facts is not None and facts.has_data_end,
        needs=() if facts is None else facts.needs,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What was found about an attempt at its end, the cause first; `death`: the text on who died first, for people."""

    findings: tuple[Finding, ...] = ()
    death: str | None = None


def judge_end(
    *,
    code: int,
    records: Sequence[RankRecord],
    facts: Mapping[int, RingFacts],
    verdicts: Sequence[Finding],
    otherwise: Callable[[], Finding],
    due: Finding | None = None,
    ended_by_us: bool = False,
    standing: Sequence[Finding] = (),
    can_resume: bool = False,
) -> Conclusion:
    """The findings on a failed attempt, the cause first; a death that follows from it is a notice.

    `code`: the launcher's own, negative for a signal. `facts`: of the rings, by pid. `verdicts` are the watcher's; for
    `due` we ended it. `standing`: what the watcher said last of ranks that stood still, notices too. `otherwise`: the
    finding where no rank's end is known.

    What died after we ended the job died of that. Else a verdict that tells why a rank died comes before the death, and
    the launcher's own end is told when no rank's is known. See [Note: root and death].
    """
    if due is not None:
        return Conclusion(findings=(due, *(each for each in conclude([due, *verdicts], is_over=True) if each != due)))
    first = first_death(records)
    if first is None or (code < 0 and not ended_by_us and first[1] is not Certainty.OBSERVED):
        # When the launcher was killed, the ranks that lost it say so: they are not the cause.
        return Conclusion(findings=tuple(verdicts) or (otherwise(),))
    culprit, certainty = first
    bystanders = [record for record in records if record.rank != culprit.rank]
    found = death_finding(culprit, certainty, bystanders, can_resume=can_resume)
    if found.site is None and found.code == "L102":
        # What a rank said of itself has its line already.
        found = _with_line(_with_site(found, culprit, None if culprit.pid is None else facts.get(culprit.pid)))
    failed = [record for record in records if record.ending is not None and record.ending.has_failed]
    if all(record.ending is not None and record.ending.is_secondary for record in failed):
        roots_found = roots(verdicts, death=found.cause, certainty=Certainty.INFERRED)
        roots_found = roots_found or _behind_a_time_out(
            standing, {record.rank for record in failed if record.failure is not None}
        )
    else:
        roots_found = roots(verdicts, death=found.cause, certainty=certainty)
    if ended_by_us:
        lines = "its launcher did not end the job within seconds: SIGTERM, then SIGKILL, by pid"
        found = replace(found, evidence=(*found.evidence, lines))
    return Conclusion(
        findings=after_roots(conclude(roots_found, is_over=True), found), death=death_text(records, culprit, found)
    )


def _with_site(found: Finding, culprit: RankRecord, told: RingFacts | None) -> Finding:
    """The finding on a death with the line where it happened, as far as a failure or a ring tells."""
    if culprit.failure is not None and isinstance(culprit.failure.get("site"), str):
        found = replace(found, site=culprit.failure["site"])
    # What a data worker did, or a crash below Python, its handler wrote into the same file.
    is_crash = found.cause is Cause.DATALOADER_WORKER or (
        culprit.failure is None and found.cause in (Cause.SEGFAULT, Cause.EXCEPTION)
    )
    if found.site is None and told is not None and told.last_site is not None:
        line = "the line is that of its last call, or of its exit"
        found = replace(found, site=told.last_site, evidence=(*found.evidence, line))
    if is_crash and told is not None and told.crash_site is not None:
        # A data worker's crash lies in the same file: a rank that was killed did not crash there.
        found = replace(found, site=told.crash_site)
    return found


def _with_line(finding: Finding) -> Finding:
    """The finding with its line's text and, as in all others, the short name of its file."""
    file, _, line = (finding.site or "").rpartition(":")
    if not file:
        return finding
    line_of = by_short_name({}, (), source_lines([Path.cwd()]), files=[file])
    return with_source(replace(finding, site=f"{short_path(file)}:{line}"), line_of)


def _behind_a_time_out(standing: Sequence[Finding], dead: set[int]) -> list[Finding]:
    """The notices on ranks that others waited for, and that still live, when the job's own time-out ended these."""
    line = "the job's own time-out, not ours, ended the ranks that waited"
    waits = [f for f in standing if f.kind is Kind.HANG and f.culprit_ranks and not dead & set(f.culprit_ranks)]
    return [arrival_as(replace(f, evidence=(*f.evidence, line)), Severity.ERROR) for f in waits]


def command_failed(code: int, command: Sequence[str]) -> Finding:
    """The finding for a command that failed and of whose ranks nothing is known."""
    ending = classify(RankEnd(exit_code=code, is_recorded=True))
    assert ending is not None, "the command has ended"
    return seen_here(
        "L106",
        f"the command failed: {ending.text}",
        cause=ending.cause,
        evidence=(shlex.join(command),),
        ruled_out=("a rank that died first: no rank process was seen to fail",),
        next="read the command's own output above",
    )
