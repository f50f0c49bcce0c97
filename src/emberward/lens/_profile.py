"""The profile of a job: what its ranks' samples say, as findings and as a page."""

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from emberward.findings import Finding
from emberward.health import Slowdown
from emberward.lens._findings import exposed_finding, missing_findings, nothing_measured, stall_finding
from emberward.lens._overlap import Overlap, RankCalls, audit
from emberward.lens._replay import Replay
from emberward.lens._samples import RankSamples
from emberward.lens._slowdown import changes_of, parts_around, parts_by_step, slowdown_finding
from emberward.lens._source import Sources
from emberward.lens._stalls import find_stalls, middle_step_s

SHOWN_PARTS = 3
SHORT_STEPS = 5
"""Fewer steps give no mean that is worth comparing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What was found, and the figures of the page."""

    findings: tuple[Finding, ...]
    num_ranks: int
    num_steps: int
    first_step: int | None
    step_s: float | None
    queue_share: float
    overlap: Overlap | None = None
    replay: Replay | None = None

    def to_json(self) -> dict[str, Any]:
        """The figures as they stand in the document of ``--json``, beside its findings."""
        return {
            "ranks": self.num_ranks,
            "steps": self.num_steps,
            "first_step": self.first_step,
            "step_ms": None if self.step_s is None else round(1000 * self.step_s, 4),
            "waited_for_a_processor": round(self.queue_share, 4),
            "collectives": None if self.overlap is None else _collectives(self.overlap),
            "replay": None if self.replay is None else _replayed(self.replay),
        }


def _replayed(replay: Replay) -> dict[str, Any]:
    path = [
        {"rank": part.rank, "lane": part.lane, "what": part.what, "ms_per_step": round(1000 * part.seconds, 4)}
        for part in replay.path()
    ]
    return {
        "steps": replay.num_steps,
        "measured_ms_per_step": round(1000 * replay.measured_s, 4),
        "replayed_ms_per_step": round(1000 * replay.step_s, 4),
        "critical_path": path,
    }


def _collectives(overlap: Overlap) -> dict[str, Any]:
    exposed = {str(rank): round(1000 * each, 4) for rank, each in sorted(overlap.exposed_s.items())}
    late = {str(rank): round(1000 * each, 4) for rank, each in sorted(overlap.waits_s.items())}
    return {
        "calls_per_step": round(overlap.calls_per_step, 3),
        "bytes_per_step": round(overlap.bytes_per_step),
        "blocked_ms_per_step": exposed,
        "waited_for_late_peers_ms_per_step": late,
    }


def profile_of(
    ranks: Sequence[RankSamples],
    sources: Sources,
    *,
    asked_warmup: int,
    calls: Sequence[RankCalls] = (),
    others: Sequence[Finding] = (),
) -> Profile:
    """The profile of the ranks' samples. `others`: what reading them found. Pure but for the program's sources."""
    measured = tuple(rank for rank in ranks if rank.num_steps)
    found: list[Finding] = list(others)
    if not measured:
        if ranks:
            why = f"the job ended before step {asked_warmup + 1}, the first after the warm-up"
            found.append(nothing_measured(why=why, next_step="--warmup with fewer steps"))
        else:
            why = "no process ended a step of a torch.optim optimizer"
            found.append(nothing_measured(why=why, next_step="steps are told by the first optimizer that steps"))
    found += missing_findings(tuple(ranks))
    overlap = audit(calls, measured, sources) if calls and measured else None
    replay = Replay(() if overlap is None else overlap.met, measured)
    stalls = find_stalls(measured, sources, replay)
    costly = [stall_finding(stall, num_ranks=len(measured)) for stall in stalls]
    for each in () if overlap is None else overlap.found:
        told = dataclasses.replace(each, gain_s=replay.without(each))
        costly.append(exposed_finding(told, num_ranks=len(measured)))
    found += sorted(costly, key=lambda finding: -(finding.cost_ms_per_step or 0.0))
    found += [slowdown_finding(each, parts_around(each, parts)) for each, parts in _changes(measured, sources)]
    queue = sum(rank.queue_s for rank in measured) / max(sum(rank.measured_s for rank in measured), 1e-9)
    return Profile(
        findings=tuple(found),
        num_ranks=len(measured),
        num_steps=min((rank.num_steps for rank in measured), default=0),
        first_step=min((rank.first_step for rank in measured), default=None),
        step_s=middle_step_s(measured),
        queue_share=queue,
        overlap=overlap,
        replay=replay if measured else None,
    )


def _collectives_text(overlap: Overlap) -> str:
    worst_ms = 1000 * max(overlap.exposed_s.values(), default=0.0)
    late_ms = 1000 * max(overlap.waits_s.values(), default=0.0)
    return (
        f"collectives: {overlap.calls_per_step:.1f} calls and {overlap.bytes_per_step:,.0f} bytes a step; a rank is "
        f"blocked in them for {worst_ms:.2f} ms at most, {late_ms:.2f} ms for late peers"
    )


def _path_text(replay: Replay) -> str:
    """The longest parts of the critical path, and how far the replay is off."""
    parts = [f"{1000 * part.seconds:.2f} ms rank {part.rank} {part.what}" for part in replay.path()[:SHOWN_PARTS]]
    off = 100 * (replay.step_s / replay.measured_s - 1) if replay.measured_s > 0 else 0.0
    return "\n".join([f"critical path, replayed at {off:+.1f}% of the step:", *(f"  {part}" for part in parts)])


def _changes(ranks: Sequence[RankSamples], sources: Sources) -> list[tuple[Slowdown, dict[str, dict[int, float]]]]:
    """The lasting changes among the measured steps, each with the parts of the steps."""
    lengths: dict[int, list[float]] = {}
    for rank in ranks:
        for index, length in enumerate(rank.step_s):
            lengths.setdefault(rank.first_step + index, []).append(length)
    changes = changes_of({step: statistics.median(each) for step, each in lengths.items()})
    return [(change, parts_by_step(ranks, sources)) for change in changes]


def finding_page(finding: Finding) -> str:
    """A finding without a cost, as the page shows it."""
    seen = [f"  seen    {line}" for line in finding.evidence]
    head = f"{finding.severity.value} {finding.code}  {finding.message}"
    return "\n".join([head, *seen, f"  next    {finding.next}"])


def page_text(profile: Profile) -> str:
    """The page of a profile, for people."""
    lines = []
    if profile.step_s is not None and profile.first_step is not None:
        ranks = f"{profile.num_ranks} rank{'s' if profile.num_ranks > 1 else ''}"
        last = profile.first_step + profile.num_steps - 1
        lines.append(
            f"step {1000 * profile.step_s:.2f} ms in the median, {ranks}, steps {profile.first_step} to {last}"
        )
        if profile.num_steps < SHORT_STEPS:
            lines.append(f"only {profile.num_steps} steps: the figures are rough")
        if profile.queue_share > 0.05:
            lines.append(f"ranks waited for a processor {100 * profile.queue_share:.0f}% of the time: the host is busy")
    if profile.overlap is not None and profile.overlap.calls_per_step:
        lines.append(_collectives_text(profile.overlap))
    if profile.replay is not None:
        lines.append(_path_text(profile.replay))
    costly = [finding for finding in profile.findings if finding.cost_ms_per_step is not None]
    rest = [finding for finding in profile.findings if finding.cost_ms_per_step is None]
    lines += [finding_page(finding) for finding in rest]
    if profile.step_s is not None and not costly:
        lines.append("nothing found that costs 1% of a step or more")
    for finding in costly:
        lines.append("")
        lines.append(f"{finding.code}  {finding.message}")
        lines.append(f"  line    {finding.site}")
        lines.append(f"  gain    {finding.gain_ms_per_step:.2f} ms a step without it")
        lines += [f"  seen    {line}" for line in finding.evidence]
        lines.append(f"  change  {finding.next}")
    return "\n".join(lines)
