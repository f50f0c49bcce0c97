"""What a launcher does next: pure decisions over what it sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

FAILED_LIMIT_S = 20.0


class StopBy(StrEnum):
    """Who asked a run to stop: Ctrl-C, or SIGTERM (SIGHUP counts as SIGTERM)."""

    INTERRUPT = "interrupt"
    TERMINATE = "terminate"

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C; 75 (EX_TEMPFAIL: requeue me) after SIGTERM."""
        return 130 if self is StopBy.INTERRUPT else 75


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    KILLED = "killed"


class Move(StrEnum):
    """The launcher's next move."""

    WAIT = "wait"
    TELL = "tell"
    KILL = "kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the launcher sees at one moment. Times are seconds of one monotonic clock.

    `stop_at_s` is when the first stop was asked, `num_interrupts` the number of Ctrl-C so far, `failed_at_s` when the
    first rank's failure was seen, `has_ranks` whether any rank has come up, `is_due` whether the attempt is to be ended
    for a finding.
    """

    now_s: float
    stop_at_s: float | None = None
    stop_by: StopBy | None = None
    num_interrupts: int = 0
    has_ranks: bool = False
    failed_at_s: float | None = None
    is_due: bool = False


def next_move(seen: Seen, *, grace_s: float) -> Move:
    """WAIT; TELL the ranks to save and stop; or KILL what is there.

    KILL comes when a finding is due, at the second Ctrl-C, `grace_s` after a stop was asked, FAILED_LIMIT_S after a
    rank failed and the agent still has not ended the others, and at once when a stop is asked before any rank came up:
    there is nothing to save.
    """
    if seen.is_due:
        return Move.KILL
    if seen.failed_at_s is not None and seen.now_s - seen.failed_at_s > FAILED_LIMIT_S:
        return Move.KILL
    if seen.stop_at_s is None:
        return Move.WAIT
    forced = seen.num_interrupts >= 2 or seen.now_s - seen.stop_at_s > grace_s
    return Move.KILL if forced or not seen.has_ranks else Move.TELL


def outcome_of(
    *, summary: Mapping[str, object] | None, agent_exit_code: int, has_ranks: bool, stop_by: StopBy | None, forced: bool
) -> AttemptOutcome:
    """How the attempt ended. `summary` is rank 0's, None when it wrote none; `forced` when the launcher had to kill.

    A summary is believed only when the agent ended cleanly, that is, when every rank exited with 0.
    """
    said = None if summary is None else summary.get("outcome")
    if agent_exit_code == 0 and said in (AttemptOutcome.DONE.value, AttemptOutcome.STOPPED.value):
        return AttemptOutcome(said)
    if stop_by is not None and not has_ranks:
        return AttemptOutcome.STOPPED
    return AttemptOutcome.KILLED if stop_by is not None and forced else AttemptOutcome.FAILED


def exit_code_of_launch(outcome: AttemptOutcome, stop_by: StopBy | None, *, is_switched_off: bool = False) -> int:
    """0 done, or stopped by the kill switch; 75 or 130 stopped (75 when somebody else told the ranks); 1 gone wrong."""
    match outcome:
        case AttemptOutcome.DONE:
            return 0
        case AttemptOutcome.STOPPED if is_switched_off and stop_by is None:
            return 0
        case AttemptOutcome.STOPPED:
            return (stop_by or StopBy.TERMINATE).exit_code
        case AttemptOutcome.FAILED | AttemptOutcome.KILLED:
            return 1
        case _:
            assert_never(outcome)
