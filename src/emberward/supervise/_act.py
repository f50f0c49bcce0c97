"""What a supervisor does about a finding, and about a rank that died: pure policy, one for ``run`` and ``train``.

[Note: never on a guess]
By default a job is ended only for what cannot go on by itself: a finding that the judge of live jobs calls an error
(its [Note: two tiers]: a cycle, calls that differ, a call that a rank lacks which has left, a rank that is dead, gone
or stopped, a wait that nobody is left to end), that was proved or seen rather than inferred, of a kind that does not
pass, and that nobody has acknowledged. It is announced first, and still has to hold `act_after_s` later.

What time alone makes suspect is a warning at most, said again at growing intervals, and ends nothing, unless the user
gave a limit (`max_silence_s`). Then it ends the job when for so long nothing of the ranks concerned went on; progress
of any kind (the judge's [Note: progress]) starts that time anew.

A rank that died is no guess; even so a job whose other ranks go on calling is left alone: it can do without.
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


ACT_AFTER_S = 60.0
"""From the announcement that a job will be ended to its end: time to acknowledge the finding or to take stacks."""
REPEAT_S = 300.0
REPEAT_FACTOR = 2.0
"""A warning that holds is said again after REPEAT_S, and each time after so many times as long as before."""


class Act(StrEnum):
    """What to do about a finding that holds."""

    NOTHING = "nothing"
    REPEAT = "repeat"
    ANNOUNCE = "announce"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """What the user allows. `act_after_s`: from the announcement to the end of a job that cannot go on; 0: never.

    `max_silence_s`: how long nothing of a rank that others wait for may go on, though it may come by itself; None: as
    long as it takes.
    """

    act_after_s: float = ACT_AFTER_S
    max_silence_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A finding that holds. Times are seconds of one monotonic clock.

    `quiet_s`: since when nothing of the ranks concerned went on, as far as was looked: until `seen_until_s`.
    `said_s`: when
    it was said last, `num_repeats` times after the first. `announced_s`: when the end of the job was announced for it.
    """

    finding: Finding
    quiet_s: float
    seen_until_s: float
    said_s: float
    num_repeats: int = 0
    announced_s: float | None = None
    is_acknowledged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do, and how severe the finding is by that. `end_in_s`: when the job ends, where its end is announced."""

    act: Act
    severity: Severity
    end_in_s: float | None = None


def is_stuck(finding: Finding) -> bool:
    """Whether a job may be ended for this finding unasked. See [Note: never on a guess]."""
    return finding.severity is Severity.ERROR and finding.certainty in SURE and finding.kind in LASTING


def decide(held: Held, patience: Patience, *, now_s: float) -> Decision:
    """What to do now about a finding that holds. See [Note: never on a guess]."""
    finding = held.finding
    nothing = Decision(act=Act.NOTHING, severity=finding.severity)
    if held.is_acknowledged or finding.kind not in LASTING:
        return nothing
    left_s = _left_s(held, patience, now_s=now_s)
    if left_s is not None and held.announced_s is None:
        return Decision(act=Act.ANNOUNCE, severity=finding.severity, end_in_s=max(left_s, 0.0))
    if left_s is not None:
        is_seen = is_stuck(finding) or held.seen_until_s - held.quiet_s >= (patience.max_silence_s or 0.0)
        return Decision(act=Act.END, severity=Severity.ERROR) if left_s <= 0.0 and is_seen else nothing
    is_loud = finding.severity is not Severity.NOTICE
    is_time = now_s - held.said_s >= REPEAT_S * REPEAT_FACTOR**held.num_repeats
    return Decision(act=Act.REPEAT, severity=finding.severity) if is_loud and is_time else nothing


def _left_s(held: Held, patience: Patience, *, now_s: float) -> float | None:
    """Seconds until the job is to be ended for the finding; None while that is not to be announced."""
    delay_s, ends = patience.act_after_s, []
    if is_stuck(held.finding) and delay_s > 0.0:
        ends.append(delay_s if held.announced_s is None else held.announced_s + delay_s - now_s)
    if patience.max_silence_s is not None and (left_s := held.quiet_s + patience.max_silence_s - now_s) <= delay_s:
        ends.append(left_s)
    return min(ends, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is known when a job may have to be ended. Times are seconds of one monotonic clock; None: did not happen.

    `died_s`: a rank ended with another code than 0, and the launcher has started none in its place. `moved_s`: when
    another rank was last seen to make a call. `left_s`: since when no rank lives. `asked_s`: when a finding became due.
    `terminated_s`: when SIGTERM was sent. `left_limit_s`: how long a launcher without ranks may take.
    """

    now_s: float
    died_s: float | None = None
    moved_s: float | None = None
    left_s: float | None = None
    asked_s: float | None = None
    terminated_s: float | None = None
    left_limit_s: float = LEFT_LIMIT_S


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
    if ending.left_s is not None and ending.now_s - ending.left_s < ending.left_limit_s:
        return EndMove.WAIT
    return EndMove.TERMINATE
