"""Where the time of a run went, from its diary and its steps: what trained and was kept, and what did not. Pure.

[Note: goodput]
Goodput is the time in which steps were trained that were kept, over the time from the first start to the last end
(Google's ML Goodput: productive and preserved time over elapsed time). The rest is work that had to be done again, the
pauses between attempts, and what an attempt does beside steps: it starts, loads, saves and evaluates.
What an attempt lost and the pause until the next count under one cause, that of its end: every second has one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRow:
    """What one cause has cost: how often, and the hours of work that had to be done again and of pauses after it."""

    cause: str
    num_times: int
    hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds of a run from its first start on, and of them what was lost, the dearest cause first."""

    elapsed_s: float
    losses: tuple[LossRow, ...]
    num_failures: int

    @property
    def lost_s(self) -> dict[str, float]:
        """By cause."""
        return {row.cause: row.hours * 3600 for row in self.losses}

    @property
    def lost_share(self) -> float:
        """In [0, 1]: what was lost of the time elapsed."""
        return min(sum(self.lost_s.values()) / self.elapsed_s, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput(Spent):
    """The same, and how long steps took that were kept."""

    kept_s: float

    @property
    def share(self) -> float:
        """In [0, 1]. See [Note: goodput]."""
        return min(self.kept_s / self.elapsed_s, 1.0)

    @property
    def other_s(self) -> float:
        """Starts, loads, saves and evaluations."""
        return max(self.elapsed_s - self.kept_s - sum(self.lost_s.values()), 0.0)

    def to_json(self) -> dict[str, Any]:
        """As it stands in a command's document; hours."""
        return {
            "share": self.share,
            "elapsed_h": self.elapsed_s / 3600,
            "kept_h": self.kept_s / 3600,
            "lost_h_by_cause": {row.cause: row.hours for row in self.losses},
            "other_h": self.other_s / 3600,
            "failures": self.num_failures,
        }


def hours_lost_by_cause(lines: Iterable[Mapping[str, Any]]) -> tuple[LossRow, ...]:
    """What a run with these lines of ``attempts.jsonl`` lost, the dearest cause first; not ends that cost nothing.

    A cause is the end's own word for it (``cause``), else its outcome. Hours that a rewind gave up count under
    ``rewind``; a rewind that was undone gave up nothing but what had been done after it (``undo_rewind``).
    """
    every = list(lines)
    undone = {line.get("number") for line in every if line.get("event") == "undo_rewind"}
    costs: dict[str, list[float]] = {}
    before: tuple[float, str] | None = None
    for line in every:
        event, hours = line.get("event"), line.get("hours_lost")
        cause = str(line.get("cause") or line.get("outcome") or event or "unknown")
        lost = hours if isinstance(hours, int | float) and event != "start" else 0.0
        if event == "rewind" and line.get("number") in undone:
            lost = 0.0
        if lost > 0:
            costs.setdefault(cause, []).append(lost)
        if event == "end":
            at = _unix(line.get("end"))
            before = None if at is None else (at, cause)
        elif event == "start" and before is not None and (at := _unix(line.get("start"))) is not None:
            pause = (at - before[0]) / 3600
            if pause > 0 and (paid := costs.setdefault(before[1], [0.0])):
                paid[-1] += pause
            before = None
    rows = (LossRow(cause=cause, num_times=len(paid), hours=sum(paid)) for cause, paid in costs.items())
    return tuple(sorted(rows, key=lambda row: (-row.hours, row.cause)))


def spent_of(lines: Iterable[Mapping[str, Any]], *, until_unix: float | None = None) -> Spent | None:
    """What a run spent and lost until its last end, or until `until_unix` if it still goes on; None without times."""
    every = list(lines)
    starts = [at for line in every if line.get("event") == "start" and (at := _unix(line.get("start"))) is not None]
    ends = [at for line in every if line.get("event") == "end" and (at := _unix(line.get("end"))) is not None]
    last = max([*ends, *([] if until_unix is None else [until_unix])], default=None)
    if not starts or last is None or last <= starts[0]:
        return None
    failures = sum(line.get("event") == "end" and line.get("outcome") not in ("done", "stopped") for line in every)
    return Spent(elapsed_s=last - starts[0], losses=hours_lost_by_cause(every), num_failures=failures)


def kept_until(lines: Iterable[Mapping[str, Any]]) -> int | None:
    """The last step that is kept; None when all are: until the run goes on, what a failure cost counts as lost."""
    every = [line for line in lines if line.get("event") in ("start", "end")]
    last = every[-1] if every else {}
    if last.get("event") != "end" or not last.get("hours_lost"):
        return None
    saved = last.get("saved_step")
    return saved if isinstance(saved, int) else 0


def goodput_of(lines: Iterable[Mapping[str, Any]], kept_s: float, *, until_unix: float | None = None) -> Goodput | None:
    """The goodput of a run whose kept steps, each once, took `kept_s`; None without times. See `kept_until`.

    `until_unix`: now, of a run that goes on; else it is that of its last end, and None before an attempt has ended.
    """
    spent = spent_of(lines, until_unix=until_unix)
    if spent is None:
        return None
    return Goodput(elapsed_s=spent.elapsed_s, losses=spent.losses, num_failures=spent.num_failures, kept_s=kept_s)


def _unix(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
