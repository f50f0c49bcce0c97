"""The judge of a live job: two snapshots in, findings out. Pure.

[Note: two tiers]
A notice says for whom the others wait, as soon as one snapshot shows it. An error needs two snapshots between which
nobody
concerned made a call, and one of: a fault of the calls themselves (they differ, a cycle, one that a rank lacks which
waits in another or has left), a rank that is dead, stopped, or whose main thread has ended, or a wait whose condition
cannot come (a lock without time-out in a process in which nothing goes on; the store, when all others wait too). A rank
that computes, reads, writes or sleeps may come by itself: it stays a notice, and becomes a warning once it has stood
still longer than its limit and is not seen at work. Time alone makes no error. See [Note: limits], [Note: progress].
"""

from collections.abc import Mapping
from dataclasses import replace

from emberward.diagnose import Ground, LineOf, conclude, judge, no_source, ranks_text, with_source
from emberward.diagnose.live._aborts import abort_findings
from emberward.diagnose.live._all_still import alike_findings, last_findings
from emberward.diagnose.live._creation import creation_findings
from emberward.diagnose.live._credits import credit_findings
from emberward.diagnose.live._deaths import death_findings, stopped_findings
from emberward.diagnose.live._pair import FlightsOf, SnapshotPair
from emberward.diagnose.live._severity import all_progress, with_severity
from emberward.diagnose.live._snapshot import Snapshot
from emberward.diagnose.live._threads import of_lanes
from emberward.findings import Cause, Certainty, Finding, FindingPhase, Kind


def judge_with_progress(
    early: Snapshot | None,
    snapshot: Snapshot,
    *,
    flights_of: FlightsOf,
    line_of: LineOf = no_source,
    exits: Mapping[int, int] | None = None,
    is_asked: bool = False,
) -> tuple[tuple[Finding, ...], Mapping[int, str]]:
    """What two snapshots at a job tell, the most severe first, empty when nobody waits for anybody; and `all_progress`.

    `exits`: codes of ranks that have ended, as a parent saw them (minus the signal's number). `is_asked`: a person says
    that the job hangs: what may come by itself is a warning then, not a notice. See [Note: two tiers].
    """
    pair = SnapshotPair(early=early, snapshot=snapshot, line_of=line_of, flights_of=flights_of)
    codes = exits or {}
    explanation = judge(
        pair.evidence(),
        line_of=line_of,
        read=pair.read,
        rules={
            Ground.STOPPED: lambda: stopped_findings(early, snapshot),
            Ground.CREATION: lambda: creation_findings(pair),
            Ground.CREDITS: lambda: credit_findings(pair),
            Ground.ABORTS: lambda: abort_findings(pair, codes),
            Ground.DEATHS: lambda: death_findings(
                early, snapshot, codes, waiting=() if early is None else pair.waiting(), lacked=pair.lacked()
            ),
        },
    )
    found = [of_lanes(f, pair) for f in explanation.findings if f.kind is not Kind.NONE]
    # Who waits for the store, or for a thread that waits, is no culprit while another rank is free to come.
    found = [f for f in found if not f.culprit_ranks or not set(f.culprit_ranks) <= pair.waits_for_all]
    # All have left their programs: the job's own end.
    found = [f for f in found if f.culprit_ranks or f.cause is not Cause.MAIN_EXITED]
    # A call that all have issued is an answer too: that its stacks are all alike adds nothing.
    if any(f.culprit_ranks or f.cycle is not None or f.cause is Cause.DEVICE_STALL for f in found):
        found = [f for f in found if f.certainty is not Certainty.UNKNOWN]
    elif all(f.certainty is Certainty.UNKNOWN for f in found):
        found = found[:1] if pair.waiting() else []
    found = found or alike_findings(pair)
    settled = [s for finding in found if (s := with_severity(finding, pair, is_asked=is_asked)) is not None]
    settled = settled or last_findings(pair)
    lines = pair.lines_by_short_name()
    named = [with_source(_placed(finding, pair), lines) for finding in settled]
    return tuple(conclude(named, is_over=False)), all_progress(pair)


def _placed(finding: Finding, pair: SnapshotPair) -> Finding:
    """The finding with step and stage of its culprit, and the hosts of all culprits."""
    ranks = finding.culprit_ranks or tuple(m.rank for m in finding.cycle or ())
    seen = [pair.snapshot.ranks[rank] for rank in ranks if rank in pair.snapshot.ranks]
    hosts = (
        finding.hosts or tuple(sorted({snapshot.host for snapshot in seen})) if finding.culprit_ranks else finding.hosts
    )
    ring = next((snapshot.ring for snapshot in seen if snapshot.ring is not None), None)
    phase = finding.phase
    if ring is not None and phase == FindingPhase():
        phase = FindingPhase(step=ring.step, stage=None if ring.stage is None else ring.stage.value)
    lines = list(finding.evidence)
    missing = sorted(set(range(pair.snapshot.world_size or 0)) - set(pair.snapshot.ranks))
    if missing:
        lines.append(f"not seen: {ranks_text(missing)}; unknown, not guilty")
    lines += [f"rank {snapshot.rank}: {problem}" for snapshot in seen for problem in snapshot.problems[:2]]
    return replace(finding, hosts=hosts, phase=phase, evidence=tuple(lines))
