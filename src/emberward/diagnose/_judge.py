"""Joins what was read about an incident into one verdict."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from emberward.diagnose._calls import KNOWN_VERSIONS
from emberward.diagnose._claims import MEET_AND_DIFFER, Ground, Rule, conclude, hear, seen_by_run
from emberward.diagnose._creation import creation_findings
from emberward.diagnose._ended import silent_findings
from emberward.diagnose._evidence import Evidence
from emberward.diagnose._frames import LineOf, ProcessStacks, no_source
from emberward.diagnose._groups import world_of
from emberward.diagnose._held import held_findings
from emberward.diagnose._judge_calls import FlightJudge
from emberward.diagnose._judge_stacks import judge_stacks
from emberward.diagnose._judge_words import judge_ends, judge_logs, judge_ras, rank_evidence
from emberward.diagnose._log_facts import LogFact, LogFactKind
from emberward.diagnose._observe import with_ranks
from emberward.diagnose._refine import frames_by_rank, refine
from emberward.diagnose._say import cannot_tell, no_alarm, ranks_text, verb, waits
from emberward.diagnose._shift import shift_findings
from emberward.diagnose._source import by_short_name, with_source
from emberward.diagnose._store import in_store, store_findings
from emberward.diagnose._waits import Reading, read_process, with_threads
from emberward.events import HELPERS, HostState, Trace
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.match import check

_SERVED = frozenset({HostState.DATALOADER, HostState.SUBPROCESS})
"""What a process does that waits for workers of its own."""
_PROGRAM = re.compile(r".*?(?:\.py|-m \S+)(?=\s|$)")
"""A command up to the program that the interpreter runs, without its arguments."""
Read = Callable[[ProcessStacks, LineOf], Reading]
"""Says what a process does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The verdict on one incident. `findings`: the most certain and most severe first, never empty.

    `operation`: the call in which the culprit is, else the one that it keeps waiting; None when no dump tells.
    """

    label: str
    findings: tuple[Finding, ...]
    read: tuple[str, ...]
    num_ranks: int
    missing_ranks: tuple[int, ...]
    operation: str | None = None

    @property
    def verdict(self) -> Finding:
        """The finding to act on."""
        return self.findings[0]


def _workers(readings: Sequence[Reading]) -> dict[int, tuple[Reading, ...]]:
    """Readings of child processes by their parent's pid.

    Where none is told, a worker belongs to the one process that waits for its data or its results, or else to the one
    of its file.
    """
    out: dict[int, list[Reading]] = defaultdict(list)
    ranks = [r for r in readings if r.kind not in HELPERS and r.process.pid is not None]
    mains = {r.process.path: r.process.pid for r in ranks}
    loading = [r.process.pid for r in ranks if r.kind in _SERVED]
    for reading in readings:
        if reading.kind in (HostState.WORKER, HostState.WORKER_IDLE):
            only = loading[0] if len(loading) == 1 else mains.get(reading.process.path)
            parent = reading.process.parent_pid or only
            if parent is not None:
                out[parent].append(reading)
    return {pid: tuple(found) for pid, found in out.items()}


def _with_workers(readings: Sequence[Reading], workers: Mapping[int, Sequence[Reading]]) -> list[Reading]:
    """The readings; who waits for a worker that reads, computes or sleeps goes on when that does, and who waits for
    the results of workers that all wait for work never does.
    """
    out = []
    for reading in readings:
        own = workers.get(reading.process.pid or -1, ())
        at_work = [worker for worker in own if worker.kind is HostState.WORKER]
        if reading.kind in _SERVED and own:
            is_lost = reading.kind is HostState.SUBPROCESS and not at_work
            is_stuck = any(worker.is_stuck for worker in at_work) if at_work else reading.is_stuck or is_lost
            reading = replace(reading, is_stuck=is_stuck)
        out.append(reading)
    return out


def _without_launchers(readings: Sequence[Reading]) -> list[Reading]:
    """The readings; a stopped process, whose stack nobody has, that runs another program than all others is a
    launcher."""
    ranks = [r for r in readings if r.kind not in HELPERS and r.process.stopped is None]
    programs = {found[0] for r in ranks if (found := _PROGRAM.match(r.process.command or ""))}
    out = []
    for reading in readings:
        own = None if reading.process.stopped is None else _PROGRAM.match(reading.process.command or "")
        is_launcher = own is not None and bool(programs) and own[0] not in programs
        out.append(replace(reading, kind=HostState.LAUNCHER) if is_launcher else reading)
    return out


def judge(
    evidence: Evidence,
    *,
    line_of: LineOf = no_source,
    read: Read = read_process,
    rules: Mapping[Ground, Rule] | None = None,
) -> Explanation:
    """The verdict on one incident. Pure, but for what `line_of` does: it gives a frame's source line, or None.

    `read` says what a process does by its stacks; one who knows more than the stacks may give another, and `rules` of
    grounds that files do not have, or that are better known than by files.

    The rules claim; `diagnose` says which claims stand: see its [Note: precedence].
    """
    line_of = by_short_name(evidence.flights, evidence.stacks, line_of)
    readings = _without_launchers(with_threads([read(process, line_of) for process in evidence.stacks]))
    numbered = [r.process.rank for r in readings if r.process.rank is not None]
    world = world_of(evidence.flights, (*numbered, *evidence.absent))
    readings, notes = with_ranks(readings, evidence.flights, world)
    workers = _workers(readings)
    readings = _with_workers(readings, workers)
    readings = [in_store(r, None if r.process.rank is None else evidence.flights.get(r.process.rank)) for r in readings]
    sections = sorted({reading.process.section for reading in readings})
    main = max(sections, key=lambda s: sum(r.process.section == s for r in readings), default=0)
    own = [r for r in readings if r.process.section == main]
    by_rank = {r.process.rank: r for r in own if r.process.rank is not None and r.kind not in HELPERS}
    by_pid = {rank: workers.get(r.process.pid or -1, ()) for rank, r in by_rank.items()}
    flight_judge = FlightJudge(evidence, by_rank, by_pid, line_of) if evidence.flights else None
    heard: dict[Ground, Rule] = {
        # What the run itself saw is a claim beside those on its files, as it was while the job ran.
        Ground.STOPPED: lambda: [each for each in seen_by_run(evidence.prior) if each.cause is Cause.STOPPED],
        Ground.CREDITS: lambda: [each for each in seen_by_run(evidence.prior) if each.cause is Cause.CYCLE_CREDIT],
        Ground.DEATHS: lambda: [each for each in seen_by_run(evidence.prior) if each.kind is Kind.CRASH],
        Ground.CREATION: lambda: creation_findings([r for r in own if r.kind not in HELPERS], line_of=line_of),
        Ground.HELD: lambda: held_findings([r for r in own if r.kind not in HELPERS], line_of),
        Ground.STACKS: lambda: judge_stacks(own, workers, line_of, is_lasting=evidence.is_lasting),
        Ground.OTHER_STACKS: lambda: _other_sections(readings, sections, main, workers, line_of),
        Ground.TRACES: lambda: [f for t in _merged(evidence.traces) for f in check(t, with_cure=False).findings],
        Ground.LOGS: lambda: judge_logs(evidence.facts),
        Ground.RAS: lambda: judge_ras(evidence.ras),
        Ground.ENDS: lambda: judge_ends(evidence.ends, evidence.facts),
    }
    if flight_judge is not None:
        groups = flight_judge.groups
        heard[Ground.STORE] = lambda: store_findings(evidence.flights, by_rank, flight_judge.world, line_of)
        heard[Ground.LINES] = lambda: (
            *shift_findings(evidence.flights, groups, line_of),
            *silent_findings(evidence.flights, groups, line_of),
        )
        heard[Ground.CALLS] = flight_judge.judge
    findings = [claim.finding for claim in hear({**heard, **(rules or {})})]
    world = flight_judge.world if flight_judge is not None else tuple(sorted(by_rank))
    missing = tuple(r for r in world if r not in evidence.flights) if evidence.flights else ()
    where = frames_by_rank(evidence.flights, by_rank)
    unnumbered = {
        r.process.pid: r.frames
        for r in own
        if r.process.rank is None and r.process.pid is not None and r.kind not in HELPERS
    }
    findings = refine(
        _of_threads(_agree(findings, by_rank), evidence.facts), where, evidence.flights, line_of, unnumbered=unnumbered
    )
    findings = [_doubted(finding) for finding in findings]
    # The order of `findings` counts where two conclude the same: what the run itself saw, it saw with more at hand.
    findings = conclude([*evidence.prior, *findings], is_over=bool(evidence.prior)) or [_nothing(evidence, missing)]
    findings = _noted([with_source(finding, line_of) for finding in findings], evidence, missing, notes)
    return Explanation(
        label=evidence.label,
        findings=(*findings, *evidence.problems),
        read=tuple(rank_evidence(evidence)),
        num_ranks=len(world) or len(own),
        missing_ranks=missing,
        operation=_operation(findings[0], evidence),
    )


def _operation(finding: Finding, evidence: Evidence) -> str | None:
    ranks = (*finding.culprit_ranks, *finding.waiting_ranks)
    heads = [evidence.flights[rank].head for rank in ranks if rank in evidence.flights]
    return next((head.text for head in heads if head is not None), None)


def _merged(traces: Sequence[Trace]) -> list[Trace]:
    """Traces of single ranks of one world as one trace; others as they are."""
    single: dict[int, Trace] = {}
    out = []
    for trace in traces:
        (rank,) = trace.events if len(trace.events) == 1 else (None,)
        if rank is None or rank in single:
            out.append(trace)
        else:
            single[rank] = trace
    if single:
        first = next(iter(single.values()))
        events = {rank: trace.events[rank] for rank, trace in single.items() if trace.world_size == first.world_size}
        out.append(replace(first, events=events))
    return out


def _other_sections(
    readings: Sequence[Reading],
    sections: Sequence[int],
    main: int,
    workers: dict[int, tuple[Reading, ...]],
    line_of: LineOf,
) -> list[Finding]:
    """Verdicts on the other snapshots in the same document, as notices: they may be of another day."""
    out = []
    for section in sections:
        if section == main:
            continue
        for finding in judge_stacks([r for r in readings if r.process.section == section], workers, line_of):
            out.append(
                replace(
                    finding,
                    severity=Severity.NOTICE,
                    evidence=("the same document holds a separate snapshot at other processes", *finding.evidence),
                )
            )
    return out


def _agree(findings: list[Finding], by_rank: dict[int, Reading]) -> list[Finding]:
    """Findings with the cause that the culprit's stack gives where the dumps alone had none."""
    out = []
    for finding in findings:
        if finding.cause is Cause.UNKNOWN and len(finding.culprit_ranks) == 1 and finding.code == "H101":
            reading = by_rank.get(finding.culprit_ranks[0])
            if reading is not None and reading.cause is not Cause.UNKNOWN:
                finding = replace(finding, cause=reading.cause, site=finding.site or reading.site)
        if finding.site is None and finding.culprit_ranks and finding.code in MEET_AND_DIFFER | {"H104"}:
            # Torch's recorder may keep no lines: the stack of that rank tells where it is.
            reading = by_rank.get(finding.culprit_ranks[0])
            finding = replace(finding, site=None if reading is None else reading.site)
        out.append(finding)
    return out


def _doubted(finding: Finding) -> Finding:
    """The finding; a warning on a rank that does something of its own says why it is none to act on."""
    if finding.code not in ("H101", "H106") or finding.severity is not Severity.WARNING:
        return finding
    return replace(finding, evidence=(*finding.evidence, "works or waits: cannot be told from one snapshot"))


def _of_threads(findings: list[Finding], facts: Sequence[LogFact]) -> list[Finding]:
    """The findings; who waits for a lock or a queue, where a thread of it ended with an exception, waits for that one.

    A recorder tells whose thread it was, so that its line is the site; of a log it is inferred.
    """
    ended = [fact for fact in facts if fact.kind is LogFactKind.THREAD]
    out = []
    for finding in findings:
        who = (*finding.culprit_ranks, *finding.culprit_pids)
        fact = next((each for each in ended if each.rank is None or each.rank in finding.culprit_ranks), None)
        if finding.cause is Cause.LOCK and len(who) == 1 and fact is not None:
            name = ranks_text(finding.culprit_ranks) if finding.culprit_ranks else f"process {who[0]}"
            behind = f"; {waits(finding.waiting_ranks)} for it" if finding.waiting_ranks else ""
            is_its = fact.rank is not None and fact.site is not None
            finding = replace(
                finding,
                code="H131",
                kind=Kind.HANG,
                cause=Cause.THREAD_DIED,
                certainty=Certainty.OBSERVED if is_its else finding.certainty,
                message=f"a thread of {name} died ({fact.word or 'an exception'}) and its main thread waits at "
                f"{finding.site}{behind}",
                site=fact.site if is_its else finding.site,
                evidence=(f"{fact.text[:200]}{f' at {fact.site}' if fact.site else ''}", *finding.evidence),
                next="fix the exception, and hand it to the main thread instead of losing it with the thread",
            )
        out.append(finding)
    return out


def _noted(
    findings: list[Finding], evidence: Evidence, missing: tuple[int, ...], notes: Sequence[str]
) -> list[Finding]:
    """The findings, the first of which tells what was not seen, and what ranks of stacks rest on."""
    lines = [*notes, *evidence.notes[:4]]
    if missing:
        lines.append(f"no dump of {ranks_text(missing)}: unknown, not guilty")
    versions = {flight.version for flight in evidence.flights.values()}
    if len(versions) > 1:
        shown = ", ".join(f"{a}.{b}" for a, b in sorted(versions))
        lines.append(
            f"the dumps are of several formats ({shown}), each within {KNOWN_VERSIONS[0]} to {KNOWN_VERSIONS[1]}"
        )
    if not lines:
        return findings
    return [replace(findings[0], evidence=(*findings[0].evidence, *lines)), *findings[1:]]


def _nothing(evidence: Evidence, missing: tuple[int, ...]) -> Finding:
    if evidence.is_empty:
        return cannot_tell(
            "no dump, stack, log or report was found",
            evidence=(f"{evidence.num_files} files were looked at below {evidence.label}",),
            next_step="see docs/explain.md for what can be read and how to make it",
        )
    flights = evidence.flights.values()
    if missing and len(missing) >= len(evidence.flights):
        return cannot_tell(
            f"no call is open on {ranks_text(evidence.flights)}, and the "
            f"{verb(missing, 'dump', 'dumps')} of {ranks_text(missing)} {verb(missing, 'is', 'are')} missing",
            evidence=rank_evidence(evidence),
            next_step=f"fetch the dumps of {ranks_text(missing)} too",
        )
    is_idle = bool(evidence.flights) and not any(flight.pending for flight in flights)
    text = "no call is open on any rank that left a dump" if is_idle else "nothing that was read tells of a hang"
    return no_alarm(
        "H110",
        f"no hang seen: {text}",
        evidence=rank_evidence(evidence),
        next_step="if the job stands still all the same, take the stacks of all ranks and explain those too",
    )
