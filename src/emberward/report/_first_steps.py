"""The pre-flight page beside what was recorded and measured: bytes by group, bubble, memory, seconds of a step.

[Note: what a recorded step holds]
A dry run records every call of a training step. The ranks of a run keep the events of their programs alone: transfers
between stages and what ends the step. Groups whose calls are made inside a stage (tp, dp) are not held against these.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emberward.events import ITEM_BYTES, Collective, CollectiveOp, Compute, Event, Send, Stage
from emberward.findings import Cause, Certainty, Finding, Severity, require_code
from emberward.plan import TP_BACKWARD, Traffic
from emberward.report._preflight import Preflight

PROGRAM_GROUPS = frozenset({"pp", "tied", "world"})
"""Groups of which a rank of a run records every call. See [Note: what a recorded step holds]."""
_GROUP_OF_LABEL = {"pp_down": "pp", "pp_up": "pp", "dp_shard": "dp", TP_BACKWARD: "tp"}
_NOT_TRAINING = frozenset(
    {Stage.EVAL, Stage.SAVE, Stage.LOAD, Stage.EXIT, Stage.SETUP, Stage.DATA, Stage.CHECK, Stage.SEARCH}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBytes:
    """Calls and payload bytes of one rank, step and group, as planned and as recorded."""

    pp_rank: int
    group: str
    planned: tuple[int, int]
    recorded: tuple[int, int]

    @property
    def is_equal(self) -> bool:
        """Whether calls and bytes are those of the plan."""
        return self.planned == self.recorded


def recorded_traffic(events: Sequence[Event]) -> dict[str, tuple[int, int]]:
    """(calls, payload bytes) by group of the training step in `events` that has most calls; empty without a step.

    A payload is the whole tensor of the call, as in plan/_traffic.py [Note: traffic]. Groups of one rank carry nothing.
    """
    steps = [_sums(step) for step in _training_steps(events)]
    return max(steps, key=lambda sums: sum(calls for calls, _ in sums.values()), default={})


def _training_steps(events: Sequence[Event]) -> Iterator[list[Event]]:
    """The events of each training step, in the order in which they were recorded.

    A forward after the end of a step begins the next, also where that has the same number: a rehearsal may play a step
    twice.
    """
    step: list[Event] = []
    number: int | None = None
    is_ending = False
    for event in events:
        stage = event.phase.stage
        is_training = event.phase.step is not None and stage not in _NOT_TRAINING
        if not is_training or event.phase.step != number or (is_ending and stage is Stage.FORWARD):
            if step:
                yield step
            step, number, is_ending = [], event.phase.step if is_training else None, False
        if is_training:
            step.append(event)
            is_ending = is_ending or stage is Stage.OPTIMIZER
    if step:
        yield step


def _sums(step: Sequence[Event]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for event in step:
        body = event.body
        if not isinstance(body, Collective | Send) or body.group is None or len(body.group.ranks) < 2:
            continue
        label = body.group.label or str(body.group)
        name = _GROUP_OF_LABEL.get(label, label)
        calls, total = found.get(name, (0, 0))
        found[name] = (calls + 1, total + _payload_bytes(body))
    return found


def _payload_bytes(body: Collective | Send) -> int:
    numel = body.numel or 0
    if isinstance(body, Collective) and body.op is CollectiveOp.ALL_GATHER:
        numel = body.out_numel or numel
    return numel * ITEM_BYTES.get(body.dtype or "", 0)


def compare_traffic(
    page: Preflight, events_of: Mapping[int, Sequence[Event]], *, groups: frozenset[str] | None = None
) -> tuple[GroupBytes, ...]:
    """Planned and recorded bytes of each role whose first rank is in `events_of`, by group; of `groups` alone if given.

    A role of which no step was recorded is left out.
    """
    rows = []
    for role in page.roles:
        events = events_of.get(role.memory.rank)
        recorded = {} if events is None else recorded_traffic(events)
        if not recorded:
            continue
        planned = _planned(role.traffic)
        names = [name for name in dict.fromkeys([*planned, *recorded]) if groups is None or name in groups]
        nothing = (0, 0)
        rows += [
            GroupBytes(
                pp_rank=role.pp_rank,
                group=name,
                planned=planned.get(name, nothing),
                recorded=recorded.get(name, nothing),
            )
            for name in names
        ]
    return tuple(rows)


def _planned(traffic: Sequence[Traffic]) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for row in traffic:
        if row.num_ranks > 1:
            calls, total = sums.get(row.group, (0, 0))
            sums[row.group] = (calls + row.num_calls, total + row.payload_bytes)
    return sums


def traffic_finding(rows: Sequence[GroupBytes]) -> Finding | None:
    """M112 when a group carries other bytes than the page says; None when all are equal."""
    wrong = [row for row in rows if not row.is_equal]
    if not wrong:
        return None
    first = wrong[0]
    return Finding(
        code="M112",
        severity=Severity.WARNING,
        kind=require_code("M112").kind,
        cause=Cause.NONE,
        certainty=Certainty.OBSERVED,
        message=f"group {first.group} of pipeline rank {first.pp_rank} carries other bytes than the page says: "
        f"{_calls_text(first.planned)} planned, {_calls_text(first.recorded)} recorded",
        evidence=tuple(
            f"pp {row.pp_rank} {row.group}: planned {_calls_text(row.planned)}, recorded {_calls_text(row.recorded)}"
            for row in wrong[:8]
        ),
        next="trust the recorded bytes; correct tp_changes of a family of your own, else report the page's as our bug",
    )


def _calls_text(calls_bytes: tuple[int, int]) -> str:
    return f"{calls_bytes[0]:,} calls of {calls_bytes[1]:,} bytes"


def measured_bubble(events_of: Mapping[int, Sequence[Event]]) -> float | None:
    """Share of the ranks' time in forwards and backwards of the last recorded step that was idle, in [0, 1).

    Clocks of ranks are taken as one: that holds on one host. None where a rank has no times, and where only the first
    step was recorded, which warms up (``log.events=2`` records one more).
    """
    busy_ns, starts, ends = [], [], []
    for events in events_of.values():
        steps = list(_training_steps(events))
        works = [event for event in steps[-1] if _is_work(event)] if len(steps) > 1 else []
        spans = [
            (e.started_ns, e.completed_ns) for e in works if e.started_ns is not None and e.completed_ns is not None
        ]
        if not spans:
            return None
        busy_ns.append(sum(end - start for start, end in spans))
        starts.append(spans[0][0])
        ends.append(max(end for _, end in spans))
    if not busy_ns:
        return None
    return 1.0 - sum(busy_ns) / (len(busy_ns) * (max(ends) - min(starts)))


_WORK = (Stage.FORWARD, Stage.BACKWARD, Stage.BACKWARD_INPUT, Stage.BACKWARD_WEIGHT)


def _is_work(event: Event) -> bool:
    return isinstance(event.body, Compute) and event.phase.stage in _WORK


# -- the page beside the run ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A predicted figure beside its measurement. Either is None where it is not known."""

    what: str
    predicted: float | None
    measured: float | None

    @property
    def error(self) -> float | None:
        """Predicted over measured, less 1."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1


def compare_first_steps(
    page: Preflight,
    steps: Sequence[Mapping[str, Any]],
    *,
    held_bytes: int | None = None,
    peak_bytes: int | None = None,
    bubble: float | None = None,
) -> tuple[Measured, ...]:
    """The page against the objects of ``metrics.jsonl``: median of the steps after the first, which warms up.

    `held_bytes` is the most that a rank holds of weights and moments, which the page counts too; `peak_bytes` the most
    of a whole process, Python and torch included, which it does not. `bubble` is that of `measured_bubble`.
    """
    later = list(steps)[1:] or list(steps)
    p = page.prediction
    planned = max(role.memory.weight_bytes + role.memory.optimizer_bytes for role in page.roles)
    return (
        Measured(what="step_s", predicted=p.step_s if p else None, measured=_median(later, "step_s")),
        Measured(what="tokens_per_s", predicted=p.tokens_per_s if p else None, measured=_median(later, "tokens_per_s")),
        Measured(what="mfu", predicted=p.mfu if p else None, measured=_median(later, "mfu")),
        Measured(what="bubble", predicted=page.bubble, measured=bubble),
        Measured(what="held_bytes", predicted=float(planned), measured=held_bytes),
        Measured(what="peak_bytes", predicted=None, measured=peak_bytes),
    )


def _median(steps: Sequence[Mapping[str, Any]], key: str) -> float | None:
    values = [step[key] for step in steps if isinstance(step.get(key), int | float)]
    return statistics.median(values) if values else None
