"""Two snapshots: the same job twice, or two incidents."""

from collections.abc import Mapping
from dataclasses import replace

from emberward.diagnose._calls import RankFlight
from emberward.diagnose._evidence import Evidence
from emberward.diagnose._judge import Explanation
from emberward.diagnose._say import hang_finding, no_alarm, ranks_text
from emberward.findings import Cause, Certainty, Finding, Kind, Severity


def is_same_job(left: Evidence, right: Evidence) -> bool:
    """Whether two snapshots are of one run: they share a call of one rank made at one time, or the processes
    themselves."""
    for rank in left.flights.keys() & right.flights.keys():
        a, b = left.flights[rank], right.flights[rank]
        times = (a.first_ns, a.last_ns, b.first_ns, b.last_ns)
        if a.thread_ids & b.thread_ids and None not in times and b.first_ns <= a.last_ns and a.first_ns <= b.last_ns:  # type: ignore[operator]
            return True
    pids_left = {process.pid for process in left.stacks if process.pid is not None}
    pids_right = {process.pid for process in right.stacks if process.pid is not None}
    return bool(pids_left) and len(pids_left & pids_right) * 2 > min(len(pids_left), len(pids_right))


def _progress(flight: RankFlight) -> tuple[int, int]:
    return (
        sum(part.enqueued for part in flight.groups.values()),
        sum(part.completed for part in flight.groups.values()),
    )


def advanced_ranks(early: Mapping[int, RankFlight], late: Mapping[int, RankFlight]) -> tuple[int, ...]:
    """Ranks that issued or completed a call between two snapshots."""
    return tuple(sorted(r for r in early.keys() & late.keys() if _progress(late[r]) > _progress(early[r])))


def _moved_pids(early: Evidence, late: Evidence) -> tuple[set[int], set[int]]:
    """(pids whose main stack differs between the snapshots, pids seen in both)."""
    before, after = ({p.pid: p.main for p in seen.stacks if p.pid is not None} for seen in (early, late))
    both = before.keys() & after.keys()
    pairs = {pid: (before[pid], after[pid]) for pid in both}
    return {p for p, (old, new) in pairs.items() if old is None or new is None or old.frames != new.frames}, both


def compare_snapshots(early: Evidence, late: Evidence, verdict: Explanation) -> Explanation:
    """The verdict on the later snapshot, corrected by what moved since the earlier one: what moves is not hung."""
    advanced = advanced_ranks(early.flights, late.flights)
    moved, both = _moved_pids(early, late)
    culprits = set(verdict.verdict.culprit_ranks)
    if advanced:
        slow = sorted(culprits & set(advanced))
        text = f"no hang: {ranks_text(advanced)} went on between the two snapshots"
        finding = hang_finding(
            "H110",
            text + (f"; {ranks_text(slow)} may be slow" if slow else ""),
            kind=Kind.STRAGGLER if slow else Kind.NONE,
            cause=Cause.SLOW_RANK if slow else Cause.NONE,
            certainty=Certainty.OBSERVED,
            severity=Severity.NOTICE,
            ranks=slow,
            evidence=tuple(
                f"rank {r}: {_progress(early.flights[r])[0]} calls issued, then {_progress(late.flights[r])[0]}"
                for r in advanced[:6]
            ),
            next_step="see docs/explain.md, slow or stuck; a report of the run shows which rank arrives last",
        )
        return replace(verdict, findings=(finding, *(_softened(f) for f in verdict.findings)))
    if not early.flights and moved:
        pids = set(verdict.verdict.culprit_pids) & moved
        by_pid = {p.pid: p.rank for p in late.stacks}
        pids |= {pid for pid in moved if by_pid.get(pid) in culprits}
        if pids:
            finding = no_alarm(
                "H110",
                f"no hang proved: {len(moved)} of {len(both)} processes moved between two snapshots, the one named too",
                certainty=Certainty.OBSERVED,
                evidence=(f"moved: processes {', '.join(map(str, sorted(moved)[:12]))}",),
                next_step="look again later; a rank that moves is slow, not stuck",
            )
            return replace(verdict, findings=(finding, *(_softened(f) for f in verdict.findings)))
    return replace(verdict, findings=tuple(_unmoved(f) for f in verdict.findings))


def _softened(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.NOTICE) if finding.kind is Kind.HANG else finding


def _unmoved(finding: Finding) -> Finding:
    """The finding; the files do not tell how far apart they were taken, so that a rank that may come still may."""
    if finding.kind is not Kind.HANG:
        return finding
    return replace(finding, evidence=(*finding.evidence, "nothing moved between two snapshots"))


def compare_incidents(left: Explanation, right: Explanation) -> Finding:
    """A notice that says what two incidents have in common: rank, operation, line, cause, kind."""
    a, b = left.verdict, right.verdict
    rows = (
        ("rank", a.culprit_ranks or a.culprit_pids, b.culprit_ranks or b.culprit_pids),
        ("operation", left.operation, right.operation),
        ("line", a.site, b.site),
        ("cause", a.cause.value, b.cause.value),
        ("kind", a.kind.value, b.kind.value),
    )
    same = [name for name, x, y in rows if x == y and x]
    evidence = [f"{name:<9} {_shown(x)} and {_shown(y)}{'' if x == y else '   differ'}" for name, x, y in rows]
    if "rank" in same and "line" in same:
        text = "the same rank at the same line: one fault twice"
    elif "line" in same or ("cause" in same and "rank" not in same and a.cause is not Cause.UNKNOWN):
        text = "the same place in the program on other ranks: look at the program, not at a machine"
    elif "rank" in same:
        text = "the same rank at another place: look at its host and device"
    elif "operation" in same and a.site is None and b.site is None:
        text = "the same call was not reached, by other ranks; without their stacks the line is not known"
    else:
        text = "two different incidents"
    return no_alarm(
        "H115",
        f"{left.label} and {right.label}: {text}",
        evidence=evidence,
        next_step="see docs/explain.md, two incidents",
    )


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "nobody"
    return "none" if value is None else str(value)
