"""Explains a job that hangs right now, by its processes: pairs of snapshots, one verdict.

[Note: until it is conclusive]
A person asks while a job starts, or in the seconds in which it comes to a stop. Two snapshots with work between them
show who may be the cause and no more. So another one is taken, up to MAX_SNAPSHOTS of them, until two in a row show
that somebody cannot go on, or that nobody waits for anybody. The last two are the verdict.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from emberward.diagnose import LineOf, Reading, cannot_tell, hang_finding, no_alarm, ranks_text
from emberward.diagnose.live import Snapshot, SnapshotPair
from emberward.findings import Cause, Certainty, Finding, Severity
from emberward.sources.dumps import flights_of
from emberward.sources.live._find import FoundJob, find_job
from emberward.sources.live._judge import judge_snapshots
from emberward.sources.live._take import snapshot_of_job

SNAPSHOTS_APART_S = 4.0
MIN_SNAPSHOTS, MAX_SNAPSHOTS = 2, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveExplanation:
    """The verdict on a job that runs. `findings`: the most severe first, never empty. `read`: what was looked at."""

    findings: tuple[Finding, ...]
    read: tuple[str, ...]
    job: FoundJob
    snapshots: tuple[Snapshot, ...] = ()


def explain_pids(
    pids: Sequence[int],
    *,
    line_of: LineOf,
    find: Callable[[Sequence[int]], FoundJob] = find_job,
    take: Callable[[FoundJob], Snapshot] = snapshot_of_job,
    wait: Callable[[float], None] = time.sleep,
) -> LiveExplanation:
    """The verdict on the ranks that are, or are below, `pids`: a launcher's process, or the ranks' own.

    Two snapshots, SNAPSHOTS_APART_S apart, or up to MAX_SNAPSHOTS; blocks for that long and for the time that stacks
    take.
    Changes nothing in the job: each process is held for some milliseconds while its stack is read. See [Note: until it
    is conclusive].
    """
    job = find(pids)
    if not job.ranks:
        return LiveExplanation(findings=(_nobody(pids, job),), read=(), job=job)
    snapshots = [take(job)]
    while True:
        wait(SNAPSHOTS_APART_S)
        job = job if _is_whole(job) else find(pids)
        snapshots.append(take(job))
        early, snapshot = snapshots[-2:]
        found = judge_snapshots(early, snapshot, line_of=line_of, is_asked=True)
        if _is_conclusive(found) or len(snapshots) == MAX_SNAPSHOTS:
            break
    pair = SnapshotPair(early=early, snapshot=snapshot, line_of=line_of, flights_of=flights_of)
    findings = found or (_no_hang(pair),)
    blind = [seen for seen in snapshot.ranks.values() if seen.process.is_alive and seen.own_stacks is None]
    if blind:
        findings = (*findings, _blind(snapshot, [seen.rank for seen in blind]))
    if not all(rank.is_numbered for rank in job.ranks):
        pid_of = {rank.rank: rank.pid for rank in job.ranks}
        findings = tuple(_by_pid(finding, pid_of) for finding in findings)
    return LiveExplanation(
        findings=findings, read=tuple(_read(snapshot, len(snapshots))), job=job, snapshots=tuple(snapshots)
    )


def _is_whole(job: FoundJob) -> bool:
    """Whether all ranks of this host were there already: a launcher starts them one after the other."""
    return all(rank.is_numbered for rank in job.ranks) and len(job.ranks) >= (job.world_size or 0)


def _is_conclusive(found: Sequence[Finding]) -> bool:
    """Whether nobody waits for anybody, or somebody is known not to go on. See [Note: until it is conclusive]."""
    return not found or any(
        each.severity is Severity.ERROR and (each.culprit_ranks or each.culprit_pids or each.cycle is not None)
        for each in found
    )


def _read(snapshot: Snapshot, num_snapshots: int) -> list[str]:
    ranks = snapshot.ranks.values()
    stacks = sum(len(seen.stacks) for seen in ranks)
    rings = sum(seen.ring is not None for seen in ranks)
    often = "twice" if num_snapshots == MIN_SNAPSHOTS else f"{num_snapshots} times"
    out = [_number(len(snapshot.ranks), "rank"), f"{_number(stacks, 'stack')}, {often}"]
    return [*out, _number(rings, "ring")] if rings else out


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _nobody(pids: Sequence[int], job: FoundJob) -> Finding:
    shown = ", ".join(map(str, pids))
    gone = f"process {job.gone[0]} is not there" if job.gone else "no Python process is among them or below them"
    return cannot_tell(
        f"no rank was found at or below process {shown}: {gone}",
        evidence=("a rank is a Python process with RANK, SLURM_PROCID or OMPI_COMM_WORLD_RANK in its environment",),
        next_step="give the launcher's pid (pgrep -f torchrun), or those of the ranks, as the user who runs them",
    )


def _blind(snapshot: Snapshot, ranks: Sequence[int]) -> Finding:
    why = next((problem for rank in ranks for problem in snapshot.ranks[rank].problems), "py-spy gave none")
    return hang_finding(
        "H126",
        f"no stack of {ranks_text(ranks)} could be read: {why}",
        cause=Cause.NONE,
        certainty=Certainty.OBSERVED,
        severity=Severity.WARNING,
        evidence=("judged by what is left: the kernel's word on the processes, and rings where there are any",),
        next_step="run as root or as the parent's user with CAP_SYS_PTRACE; kernel.yama.ptrace_scope must allow it",
    )


def _no_hang(pair: SnapshotPair) -> Finding:
    lines = [_line(rank, reading, pair) for rank, reading in list(pair.readings.items())[:8]]
    return no_alarm(
        "H110",
        "no hang seen: in two snapshots no rank was found for which the others wait",
        certainty=Certainty.OBSERVED,
        evidence=lines,
        next_step="if the job stands still all the same, explain its flight-recorder dumps too",
    )


def _line(rank: int, reading: Reading, pair: SnapshotPair) -> str:
    return f"rank {rank} {reading.text}; {pair.motions[rank].text}"


def _by_pid(finding: Finding, pid_of: dict[int, int]) -> Finding:
    """The finding with processes in place of ranks that nobody numbered."""
    pids = tuple(sorted(pid_of[rank] for rank in finding.culprit_ranks if rank in pid_of))
    shown = ", ".join(f"{rank} is process {pid}" for rank, pid in list(pid_of.items())[:16])
    line = f"no process tells its rank: they are numbered by their start; {shown}"
    return replace(finding, culprit_ranks=(), culprit_pids=pids, evidence=(*finding.evidence, line))
