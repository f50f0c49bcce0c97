"""The profile of a job: what its ranks' samples say, as findings and as a page."""

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from emberward.findings import Cause, Finding
from emberward.health import Slowdown
from emberward.lens._alike import MOSTLY, alike_work
from emberward.lens._backward import backward_meetings, has_hidden_calls, in_order
from emberward.lens._calls import Call, Line, RankCalls, calls_of
from emberward.lens._debug_modes import checks_of_calls
from emberward.lens._findings import (
    exposed_finding,
    missing_findings,
    missing_part,
    nothing_measured,
    stall_finding,
    waste_finding,
)
from emberward.lens._flow import repeats_of, slack_of, unread_of
from emberward.lens._forms import FormTimes, other_forms
from emberward.lens._gathers import Sharding, sharding_of
from emberward.lens._held import held_by_all
from emberward.lens._logs import log_lines
from emberward.lens._operations import Called, RankOperations
from emberward.lens._overlap import Exposed, Overlap, audit, load_of
from emberward.lens._replay import Replay
from emberward.lens._samples import MIN_GAIN, USER, RankSamples, steps_since
from emberward.lens._sharding import wastes_of
from emberward.lens._slowdown import changes_of, own_by_step, parts_around, parts_by_step, slowdown_finding
from emberward.lens._small_kernels import small_kernels
from emberward.lens._source import Sources
from emberward.lens._stages import uneven_stages
from emberward.lens._stalls import BUSY_SHARE, Stall, find_stalls, middle_step_s, with_checks
from emberward.lens._tensors import tensor_shares
from emberward.lens._uneven import dealt, is_of_pace, uneven_steps
from emberward.lens._unused import is_result_kept_from_all
from emberward.lens._waste import Waste
from emberward.lens._work import PARTS, SHOWN_MODULES, RankWork, Rate, Work, work_of

SHOWN_PARTS = 3
MAX_UNCERTAIN = 6
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
    uncertain: tuple[Stall, ...] = ()
    """What was seen, and may or may not cost enough of a step: the host was busy."""
    overlap: Overlap | None = None
    replay: Replay | None = None
    work: Work | None = None
    sharding: Sharding | None = None

    def to_json(self) -> dict[str, Any]:
        """The figures as they stand in the document of ``--json``, beside its findings."""
        return {
            "ranks": self.num_ranks,
            "steps": self.num_steps,
            "first_step": self.first_step,
            "step_ms": None if self.step_s is None else round(1000 * self.step_s, 4),
            "waited_for_a_processor": round(self.queue_share, 4),
            "not_certain": [
                {"cause": each.cause.value, "site": each.site, "cost_ms_per_step": round(1000 * each.cost_s, 4)}
                for each in self.uncertain
            ],
            "collectives": None if self.overlap is None else _collectives(self.overlap),
            "replay": None if self.replay is None else _replayed(self.replay),
            "work": None if self.work is None else _worked(self.work),
            "sharding": None if self.sharding is None else self.sharding.to_json(),
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


def _worked(work: Work) -> dict[str, Any]:
    return {
        "observed_steps": work.num_steps,
        "step_ms": round(1000 * work.step_s, 4),
        "parameters": work.num_parameters,
        "flops_per_step": sum(work.flops.values()),
        "recomputed_flops_per_step": work.recomputed,
        "by_kind": dict(work.flops),
        "by_module": dict(work.modules),
        "peak": None if work.peak is None else {"flops_per_s_and_rank": work.peak.flops_per_s, "of": work.peak.name},
        "mfu": None if work.mfu is None else round(work.mfu, 5),
        "waterfall_ms": {part: round(1000 * seconds, 4) for part, seconds in work.waterfall.items()},
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
    operations: Sequence[RankOperations] = (),
    peak: Rate | None = None,
    forms: Mapping[str, FormTimes] = MappingProxyType({}),
    others: Sequence[Finding] = (),
    hosts: Mapping[int, str] | None = None,
    beside: Callable[[int], Sequence[str]] = lambda step: (),
) -> Profile:
    """The profile of the ranks' samples. `others`: what reading them found. Pure but for the program's sources.

    `forms`: what operations were measured to take in another form ([Note: gain of another form]).
    `hosts`: where ranks ran. `beside`: what happened around a step, for a change of speed that began there.
    """
    pageable = frozenset().union(*(rank.pageable for rank in operations))
    observed = {rank.rank: rank for rank in operations}
    measured = tuple(
        dataclasses.replace(
            rank,
            pageable=pageable,
            num_reads=observed[rank.rank].num_reads if rank.rank in observed else rank.num_reads,
            log_lines=log_lines(rank.stacks),
            shares=tensor_shares(rank, observed.get(rank.rank)),
            returned=_returned(observed.get(rank.rank)),
        )
        for rank in ranks
        if rank.num_steps
    )
    found: list[Finding] = [*others, *_nothing(ranks, measured, asked_warmup), *missing_findings(tuple(ranks))]
    found += [
        missing_part(f"no operations of rank {rank.rank}: {rank.why_short}", ranks=(rank.rank,))
        for rank in operations
        if rank.why_short
    ]
    of_rank = {each.rank: calls_of(each) for each in calls}
    blocked = {rank: [(call.blocked_s, call.free_s) for call in own] for rank, own in of_rank.items()}
    issued = {rank: [call.issued_s for call in own] for rank, own in of_rank.items()}
    work = work_of(operations, measured, blocked=blocked)
    seen = [rank for rank in operations if rank.num_steps]
    # Ranks of one job meet somewhere: where nothing was observed and no ring has a call, in the backward.
    is_hidden = has_hidden_calls(work, seen, issued) if work is not None else not any(issued.values())
    # A ring keeps the last calls: of steps from before, nothing can be said of what they waited for.
    held = steps_since(measured, max((each.begin_s for each in calls), default=-math.inf))
    computing = [rank for rank in held if not rank.by_turns] or held
    hidden = [in_order(each, of_rank) for each in backward_meetings(computing)] if is_hidden else []
    slack = {rank.rank: slack_of(rank, of_rank.get(rank.rank, ())) for rank in seen}
    unread = _unread(seen, of_rank, measured, sources)
    in_vain = {**held_by_all(seen), **dict.fromkeys(unread, Cause.UNUSED_RESULT)}
    loads = {} if work is None else {each.rank: _load(each, work.num_steps) for each in work.ranks}
    overlap = audit(calls, held, sources, hidden, slack, in_vain, loads) if (calls or hidden) and measured else None
    replay = Replay(hidden if overlap is None else overlap.met, held)
    seen_stalls = with_checks(find_stalls(measured, sources, replay), seen, measured, sources)
    stalls = tuple(stall for stall in seen_stalls if stall.is_certain)
    work = work_of(operations, measured, blocked=blocked, stalls_s=_stalls_s(stalls), peak=peak)
    by_rank = {rank.rank: rank for rank in measured}
    repeats = {rank.rank: repeats_of(rank, of_rank.get(rank.rank, ()), by_rank.get(rank.rank)) for rank in seen}
    wastes = () if work is None else wastes_of(work, seen, of_rank, measured, repeats, sources)
    wastes = (*wastes, *checks_of_calls(seen, measured, sources), *other_forms(seen, measured, forms))
    wastes = _apart((*wastes, *small_kernels(seen, measured, sources), *alike_work(seen, measured, sources)))
    exposed = [] if overlap is None else _unsaid(overlap.found, wastes)
    exposed = [each for each in exposed if not is_of_pace(each, held, seen)]
    uneven = None if overlap is None else uneven_steps(overlap, held, seen)
    stages = None if overlap is None or work is None else uneven_stages(overlap, held, seen, work)
    exposed += [each for each in (uneven, stages) if each is not None]
    exposed = [dealt(each, seen, sources) for each in exposed]
    exposed = [_weighed(each, replay.without(each)) for each in exposed]
    exposed = [each for each in exposed if each.sure * each.gain_s >= MIN_GAIN * replay.step_s]
    size = len(measured)
    costly = [stall_finding(stall, num_ranks=size) for stall in stalls]
    costly += [exposed_finding(each, num_ranks=size) for each in exposed]
    costly += [waste_finding(waste, num_ranks=size) for waste in wastes]
    found += sorted(costly, key=lambda finding: -(finding.cost_ms_per_step or 0.0))
    found += [
        slowdown_finding(each, parts_around(each, parts), hosts=hosts, beside=beside(each.first_step))
        for each, parts in _changes(measured, sources)
    ]
    queue = sum(rank.queue_s for rank in measured) / max(sum(rank.measured_s for rank in measured), 1e-9)
    return Profile(
        findings=tuple(found),
        num_ranks=len(measured),
        num_steps=min((rank.num_steps for rank in measured), default=0),
        first_step=min((rank.first_step for rank in measured), default=None),
        step_s=middle_step_s(measured),
        queue_share=queue,
        uncertain=tuple(stall for stall in seen_stalls if not stall.is_certain),
        overlap=overlap,
        replay=replay if measured else None,
        work=work,
        sharding=None if work is None else sharding_of(work, seen),
    )


def _returned(rank: RankOperations | None) -> frozenset[Called]:
    """Lines, and functions that mostly give them what they have given before."""
    found = {} if rank is None else rank.returned
    return frozenset(called for called, again in found.items() if again.share >= MOSTLY)


def _load(rank: RankWork, num_steps: int) -> float:
    """Of all that a rank moves in a step."""
    return sum(load_of(each.num_bytes) for each in rank.transfers) / num_steps


def _weighed(each: Exposed, gain_s: float) -> Exposed:
    """With what the step would gain. A wait for ranks costs no more: of work dealt evenly each has a part.

    Many small calls cost as much at least: ranks that meet once instead wait for each other once.
    """
    cost_s = each.cost_s
    if each.cause is Cause.TINY_MESSAGES:
        cost_s = max(cost_s, gain_s)
    elif each.cause is not Cause.SAME_LANE and gain_s > 0:
        cost_s = min(cost_s, max(gain_s, each.transfer_s))
    return dataclasses.replace(each, gain_s=gain_s, cost_s=cost_s, share=each.share * cost_s / each.cost_s)


def _unread(
    seen: Sequence[RankOperations],
    calls: Mapping[int, Sequence[Call]],
    samples: Sequence[RankSamples],
    sources: Sources,
) -> frozenset[Line]:
    """Lines of calls whose results no operation of any rank reads, nor the text but where a condition holds."""
    each = [unread_of(rank, calls.get(rank.rank, ())) for rank in seen]
    lines = frozenset.intersection(*each) if each else frozenset()
    kept: set[Line] = set()
    for sampled in (sampled for rank in samples for sampled in rank.stacks):
        users = [place for place in sampled.stack if place.owner == USER]
        if not users:
            continue
        line = users[0].file, users[0].line
        # Of objects the call itself reads what it was sent, and nothing but the names of the text holds them then.
        if line not in kept and (line in lines or sources.called(users[0]).endswith(("_object", "_object_list"))):
            kept |= {line} if is_result_kept_from_all(users, sources) else set()
    return frozenset(kept)


def _nothing(ranks: Sequence[RankSamples], measured: Sequence[RankSamples], asked_warmup: int) -> list[Finding]:
    """P110 where no step was measured."""
    if measured:
        return []
    if ranks:
        why = f"the job ended before step {asked_warmup + 1}, the first after the warm-up"
        return [nothing_measured(why=why, next_step="--warmup with fewer steps")]
    why = "no process ended a step of torch.optim, or a backward without an optimizer, or turned ten times in a loop"
    return [
        nothing_measured(
            why=why, next_step="emberward profile --pid PID while it runs: lines and their shares need no steps"
        )
    ]


def _stalls_s(stalls: Sequence[Stall]) -> dict[int, float]:
    """What each rank loses to stalls, seconds a step: collections that are told beside their stall count there."""
    made = {stall.site for stall in stalls if stall.cause is not Cause.GC}
    total: dict[int, float] = {}
    for stall in (stall for stall in stalls if stall.cause is not Cause.GC or stall.site not in made):
        for rank, cost_s in stall.by_rank.items():
            total[rank] = total.get(rank, 0.0) + cost_s
    return total


def _apart(wastes: Sequence[Waste]) -> tuple[Waste, ...]:
    """Without what a line does to gather what it has: small pieces, small kernels."""
    twice = {each.site: each.cost_s for each in wastes if each.cause is Cause.GATHERED_TWICE}
    return tuple(
        each for each in wastes if each.cause is Cause.GATHERED_TWICE or each.cost_s > twice.get(each.site, 0.0)
    )


def _unsaid(found: Sequence[Exposed], wastes: Sequence[Waste]) -> list[Exposed]:
    """Without small calls that are told as parameters too small to be sharded, and gathers told as not needed."""
    is_said = any(each.cause is Cause.SMALL_PARAMETERS for each in wastes)
    twice = {each.site for each in wastes if each.cause is Cause.GATHERED_TWICE}
    sharded = ("all_gather", "reduce_scatter")
    return [
        each
        for each in found
        if not (is_said and each.cause is Cause.TINY_MESSAGES and each.what.startswith(sharded))
        and not (each.cause is not Cause.LATE_PEER and each.site in twice)
    ]


WATERFALL = {
    "model": "the model's products at the peak",
    "products": "products slower than the peak",
    "other_operations": "other operations",
    "recompute": "computed again in the backward",
    "exposed": "collectives that nothing hides",
    "imbalance": "collectives that wait for a later rank",
    "bubble": "sends and receives",
    "stalls": "stalls",
    "small_kernels": "between operations (Python, launches)",
}
"""The parts of a step, from the peak down."""


def _work_text(work: Work) -> str:
    rate = sum(work.flops.values()) / 1e9
    lines = [
        f"work: {work.num_parameters:,} parameters, {rate:.3f} GFLOP a step over all ranks, "
        f"{work.recomputed / 1e9:.3f} of them computed again; {work.num_steps} steps were observed operation by "
        f"operation, which makes them longer: the lines below share out their {1000 * work.step_s:.2f} ms"
    ]
    if work.peak is not None and work.mfu is not None:
        per_s = work.peak.flops_per_s / 1e9
        lines.append(f"MFU {100 * work.mfu:.1f}% of {per_s:.1f} GFLOP/s a rank ({work.peak.name})")
    for part in PARTS:
        seconds = work.waterfall[part]
        if seconds >= work.step_s / 1000:
            lines.append(f"  {1000 * seconds:9.2f} ms {100 * seconds / work.step_s:5.1f}%  {WATERFALL[part]}")
    total = sum(work.flops.values())
    shown = [*work.modules.items()][:SHOWN_MODULES]
    if shown:
        lines.append(
            f"  most of it in the module{'s' if len(shown) > 1 else ''} "
            + ", ".join(f"{name} ({100 * count / total:.0f}%)" for name, count in shown)
        )
    return "\n".join(lines)


def _sharding_text(sharding: Sharding) -> str:
    text = (
        f"sharding: {sharding.gathers:.0f} gathers of {sharding.gathered_bytes:,.0f} bytes a step "
        f"({sharding.unique_bytes:,} of them once), {sharding.scatters:.0f} scatters of "
        f"{sharding.scattered_bytes:,.0f} bytes"
    )
    if sharding.order_changes:
        text += f"; another order of gathers in {sharding.order_changes} of {sharding.of_steps - 1} steps"
    return text


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
    """The lasting changes among the measured steps, each with the parts of the steps of those that are waited for."""
    if any(rank.is_spread for rank in ranks):
        return []
    lengths: dict[int, list[float]] = {}
    for rank in ranks:
        for index, length in enumerate(rank.step_s):
            lengths.setdefault(rank.first_step + index, []).append(length)
    own_s = own_by_step(ranks)
    changes = changes_of({step: statistics.median(each) for step, each in lengths.items()}, own_s)
    of = [[rank for rank in ranks if rank.rank in change.grown.culprits] or ranks for change in changes]
    return [(change, parts_by_step(own, sources)) for change, own in zip(changes, of, strict=True)]


def finding_page(finding: Finding) -> str:
    """A finding without a cost, as the page shows it."""
    seen = [f"  seen    {line}" for line in finding.evidence]
    head = f"{finding.severity.value} {finding.code}  {finding.message}"
    return "\n".join([head, *seen, f"  next    {finding.next}"])


def _uncertain_text(stalls: Sequence[Stall]) -> list[str]:
    """What a busy host leaves open, in lines for people."""
    if not stalls:
        return []
    shown = [
        f"  {each.cause.value} at {each.site}: {1000 * each.cost_s:.2f} ms a step" for each in stalls[:MAX_UNCERTAIN]
    ]
    more = [f"  and {len(stalls) - MAX_UNCERTAIN} more"] if len(stalls) > MAX_UNCERTAIN else []
    return ["seen, and not certain on so busy a host; profile again on a quiet one:", *shown, *more]


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
        if profile.queue_share >= BUSY_SHARE:
            lines.append(f"ranks waited for a processor {100 * profile.queue_share:.0f}% of the time: the host is busy")
        lines += _uncertain_text(profile.uncertain)
    if profile.overlap is not None and profile.overlap.calls_per_step:
        lines.append(_collectives_text(profile.overlap))
    if profile.work is not None:
        lines.append(_work_text(profile.work))
    if profile.sharding is not None:
        lines.append(_sharding_text(profile.sharding))
    if profile.replay is not None:
        lines.append(_path_text(profile.replay))
    costly = [finding for finding in profile.findings if finding.cost_ms_per_step is not None]
    rest = [finding for finding in profile.findings if finding.cost_ms_per_step is None]
    lines += [finding_page(finding) for finding in rest]
    if profile.step_s is not None and not costly:
        lines.append(f"nothing{' else' if rest else ''} found that costs 1% of a step or more")
    for finding in costly:
        lines.append("")
        lines.append(f"{finding.code}  {finding.message}")
        lines.append(f"  line    {finding.site}")
        lines.append(f"  gain    {finding.gain_ms_per_step:.2f} ms a step without it")
        lines += [f"  seen    {line}" for line in finding.evidence]
        lines.append(f"  change  {finding.next}")
    return "\n".join(lines)
