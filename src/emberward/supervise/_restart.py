"""Whether a run whose attempt failed is started again: pure policy."""

from collections.abc import Sequence
from dataclasses import dataclass

from emberward.findings import Finding
from emberward.supervise._policy import AttemptOutcome

RESTARTABLE = frozenset({"K103", "L102", "L105", "L112", "L113"})
"""A rank died, a save could not be written (room may be made), the launch ended without a result, or a link was cut or
a host lost: the next attempt is made without that host.

Any other finding would come again: a person must act on it.
"""
HANGS = "H"
"""The letter of findings about a job that stood still: it is ended and started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How one attempt ended: its findings' codes, and the step of the newest save then (None: no save).

    `has_lost_host`: it lost a host that takes no part in the next one.
    """

    outcome: AttemptOutcome
    codes: tuple[str, ...]
    saved_step: int | None
    has_lost_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """What to do after the last attempt, and why, in a few words for people and the diary."""

    is_wanted: bool
    why: str


def decide_restart(ends: Sequence[AttemptEnd], *, max_restarts: int) -> Restart:
    """Whether to start again after `ends`, the attempts of this launch in order; at least one.

    Restarts are bounded by `max_restarts` and end when the last two attempts saved nothing new: a fault that comes
    again at the same place is not fixed by starting again. An attempt that lost a host is another matter: the next one
    is made without it, and one that was stopped for a slow host uses up no restart.
    """
    last = ends[-1]
    save = "the beginning" if last.saved_step is None else f"the save of step {last.saved_step}"
    if last.outcome is AttemptOutcome.STOPPED and last.has_lost_host:
        return Restart(is_wanted=True, why=f"goes on from {save}")
    if last.outcome is not AttemptOutcome.FAILED:
        return Restart(is_wanted=False, why=f"the attempt ended {last.outcome.value}")
    if not last.codes or not all(code in RESTARTABLE or code.startswith(HANGS) for code in last.codes):
        return Restart(is_wanted=False, why=f"{', '.join(last.codes) or 'the failure'} would come again")
    failed = [each for each in ends if each.outcome is AttemptOutcome.FAILED]
    if len(failed) > max_restarts:
        return Restart(is_wanted=False, why=f"all {max_restarts} restarts are used")
    if len(ends) >= 2 and ends[-2].saved_step == last.saved_step and not last.has_lost_host:
        return Restart(is_wanted=False, why="the last two attempts saved no new step")
    return Restart(is_wanted=True, why=f"restart {len(failed)} of {max_restarts} from {save}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How one attempt of a supervised command ended.

    `exit_code` is negative for a signal. `last_step` counts the optimizer steps of this attempt (None: none seen),
    `num_saves` the saves that ended in it.
    """

    outcome: AttemptOutcome
    exit_code: int
    findings: tuple[Finding, ...]
    last_step: int | None
    num_saves: int


def decide_rerun(ends: Sequence[RunEnd], *, max_restarts: int) -> Restart:
    """Whether to run a command again after `ends`, its attempts in order; at least one.

    Bounded by `max_restarts`. An attempt gained something when it ended a save; in a job whose saves we never saw, when
    it made a step. Two attempts in a row that gained nothing end it, and so does a finding that names `host`, ours of
    several (None: the only one). See `_left_out.py` [Note: leaving out a host].
    """
    last = ends[-1]
    if last.outcome is not AttemptOutcome.FAILED:
        return Restart(is_wanted=False, why=f"the attempt ended {last.outcome.value}")
    if len(ends) > max_restarts:
        return Restart(is_wanted=False, why=f"all {max_restarts} restarts are used")
    saves_seen = any(each.num_saves for each in ends)

    def gained(each: RunEnd) -> bool:
        return each.num_saves > 0 if saves_seen else bool(each.last_step)

    if len(ends) >= 2 and not gained(ends[-1]) and not gained(ends[-2]):
        what = "ended no save" if saves_seen else "made no step"
        return Restart(is_wanted=False, why=f"the last two attempts {what}")
    return Restart(is_wanted=True, why=f"restart {len(ends)} of {max_restarts}")
