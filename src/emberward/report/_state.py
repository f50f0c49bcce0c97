"""Where a run stands, decided from what its folder shows and not from a goodbye. Pure.

[Note: states]
The launcher's word on how an attempt ended comes first. Without one, a run whose launcher is gone has died. A run is
stalled when an error that stops ranks stands, when a rank for which others wait stands still for longer than its
history explains, or sleeps for longer (a warning), or when its last step is older than it may be: `step_limit_s`. In a
phase that the ranks declared (start, evaluation, save, sample) a step may take as long as it likes.
"""

from dataclasses import dataclass
from enum import StrEnum

from emberward.findings import Finding, Kind, Severity

LEAST_LIMIT_S = 30.0
"""No run is called stalled sooner: its first steps, a compilation or a full disk cache take as long."""
LIMIT_IN_STEPS = 3.0
STOPPING = (Kind.DEADLOCK, Kind.MISMATCH, Kind.MISSING, Kind.CRASH, Kind.HANG)
DECLARED = {"setup": "starting", "eval": "evaluating", "save": "saving", "sample": "sampling"}


class State(StrEnum):
    """What a run does now, or how it ended."""

    NOT_STARTED = "not started"
    STARTING = "starting"
    RUNNING = "running"
    EVALUATING = "evaluating"
    SAVING = "saving"
    SAMPLING = "sampling"
    STALLED = "stalled"
    ABANDONED = "launcher died"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    KILLED = "killed"

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens in the folder."""
        return self in (State.ABANDONED, State.DONE, State.STOPPED, State.FAILED, State.KILLED)

    @property
    def is_bad(self) -> bool:
        """Whether a person should look."""
        return self in (State.STALLED, State.ABANDONED, State.FAILED, State.KILLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What the state is decided by. `is_alone`: the launcher is gone, or has been silent for too long."""

    outcome: str | None
    num_attempts: int
    is_alone: bool
    phase: str | None
    step_age_s: float | None
    step_s: float | None
    findings: tuple[Finding, ...] = ()


def step_limit_s(step_s: float | None) -> float:
    """How old the last step may be, in seconds, before the run is called stalled: three steps, at least 30 s."""
    return max(LIMIT_IN_STEPS * step_s, LEAST_LIMIT_S) if step_s is not None else LEAST_LIMIT_S


def is_late(signs: Signs) -> bool:
    """Whether the last step is older than it may be."""
    is_declared = signs.phase is not None and signs.phase != "train"
    return not is_declared and signs.step_age_s is not None and signs.step_age_s > step_limit_s(signs.step_s)


def _stops(finding: Finding) -> bool:
    if finding.severity is Severity.WARNING:
        return finding.kind is Kind.HANG
    return finding.severity is Severity.ERROR and finding.kind in STOPPING


def state_of(signs: Signs) -> State:
    """The state. See [Note: states]."""
    if signs.outcome is not None:
        return next((state for state in State if state.value == signs.outcome), State.FAILED)
    if signs.num_attempts and signs.is_alone:
        return State.ABANDONED
    if signs.num_attempts == 0 and signs.phase is None and signs.step_age_s is None:
        return State.NOT_STARTED
    if signs.phase == "done":
        return State.DONE
    if any(map(_stops, signs.findings)) or is_late(signs):
        return State.STALLED
    if signs.phase in DECLARED:
        return State(DECLARED[signs.phase])
    return State.STARTING if signs.step_age_s is None and signs.phase is None else State.RUNNING
