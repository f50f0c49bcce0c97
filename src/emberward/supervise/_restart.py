"""Whether a run whose attempt failed is started again: pure policy."""

from collections.abc import Sequence
from dataclasses import dataclass

from emberward.supervise._policy import Outcome

RESTARTABLE = frozenset({"L102", "L105"})
"""A rank died, or the launch ended without a result. Any other finding would come again: a person must act on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How one attempt ended: its findings' codes, and the step of the newest save then (None: no save)."""

    outcome: Outcome
    codes: tuple[str, ...]
    saved_step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """What to do after the last attempt, and why, in a few words for people and the diary."""

    is_wanted: bool
    why: str


def decide_restart(ends: Sequence[AttemptEnd], *, max_restarts: int) -> Restart:
    """Whether to start again after `ends`, the attempts of this launch in order; at least one.

    Restarts are bounded by `max_restarts` and end when the last two attempts saved nothing new: a fault that comes
    again at the same place is not mended by starting again.
    """
    last = ends[-1]
    if last.outcome is not Outcome.FAILED:
        return Restart(is_wanted=False, why=f"the attempt ended {last.outcome.value}")
    if not last.codes or not RESTARTABLE.issuperset(last.codes):
        return Restart(is_wanted=False, why=f"{', '.join(last.codes) or 'the failure'} would come again")
    if len(ends) > max_restarts:
        return Restart(is_wanted=False, why=f"all {max_restarts} restarts are used")
    if len(ends) >= 2 and ends[-2].saved_step == last.saved_step:
        return Restart(is_wanted=False, why="the last two attempts saved no new step")
    save = "the beginning" if last.saved_step is None else f"the save of step {last.saved_step}"
    return Restart(is_wanted=True, why=f"restart {len(ends)} of {max_restarts} from {save}")
