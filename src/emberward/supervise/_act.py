"""What a supervisor does about a finding, and about a rank that died: pure policy.

[Note: never on a guess]
A job is ended only for a finding that is an error, that was proved or seen rather than inferred, of a kind that does
not pass by itself, that nobody has acknowledged, and that still holds after the grace that the user set. Everything
else is reported. A rank that died is no guess; even so a job whose other ranks go on calling is left alone: it can do
without.
"""

from dataclasses import dataclass
from enum import StrEnum

from emberward.findings import Certainty, Finding, Kind, Severity

LASTING = frozenset({Kind.DEADLOCK, Kind.MISMATCH, Kind.MISSING, Kind.CRASH, Kind.HANG, Kind.DEVICE, Kind.LINK})
SURE = frozenset({Certainty.PROVED, Certainty.OBSERVED})
DEATH_LIMIT_S = 5.0
"""How long a launcher may take to end a job in which a rank died; torchrun needs 1 to 3 s."""
LEFT_LIMIT_S = 30.0
"""How long it may take to end itself once no rank lives: its exit code is the command's, and on a full host torchrun
was seen to need more than 5 s for its last report."""


class EndMove(StrEnum):
    """How a supervisor goes about ending a job."""

    WAIT = "wait"
    TERMINATE = "terminate"
    KILL = "kill"


def is_actionable(finding: Finding) -> bool:
    """Whether a job may be ended for this finding at all. See [Note: never on a guess]."""
    return finding.severity is Severity.ERROR and finding.certainty in SURE and finding.kind in LASTING


def is_due(finding: Finding, *, since_s: float, now_s: float, act_after_s: float, is_acknowledged: bool) -> bool:
    """Whether to end the job now for a finding that has held since `since_s`. `act_after_s` 0: never."""
    if not is_actionable(finding) or is_acknowledged or act_after_s <= 0.0:
        return False
    return now_s - since_s >= act_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is known when a job may have to be ended. Times are seconds of one monotonic clock; None: did not happen.

    `died_s`: a rank ended with another code than 0, and the launcher has started none in its place. `moved_s`: when
    another rank was last seen to make a call. `left_s`: since when no rank lives. `asked_s`: when a finding became due.
    `terminated_s`: when SIGTERM was sent.
    """

    now_s: float
    died_s: float | None = None
    moved_s: float | None = None
    left_s: float | None = None
    asked_s: float | None = None
    terminated_s: float | None = None


def end_move(ending: Ending, *, grace_s: float) -> EndMove:
    """The next step towards the end of a job: SIGTERM to its launcher first, then SIGKILL after `grace_s`."""
    if ending.terminated_s is not None:
        return EndMove.KILL if ending.now_s - ending.terminated_s >= grace_s else EndMove.WAIT
    if ending.asked_s is not None:
        return EndMove.TERMINATE
    if ending.died_s is None or ending.now_s - ending.died_s < DEATH_LIMIT_S:
        return EndMove.WAIT
    if ending.moved_s is not None and ending.now_s - ending.moved_s < DEATH_LIMIT_S:
        return EndMove.WAIT
    if ending.left_s is not None and ending.now_s - ending.left_s < LEFT_LIMIT_S:
        return EndMove.WAIT
    return EndMove.TERMINATE
