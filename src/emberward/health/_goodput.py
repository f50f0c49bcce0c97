"""Where the time of a run went, from its diary and its steps: what trained and was kept, and what did not. Pure.

[Note: goodput]
Goodput is the time in which steps were trained that were kept, over the time from the first start to the last end
(Google's ML Goodput: productive and preserved time over elapsed time). The rest is work that had to be done again, the
pauses between attempts, and what an attempt does beside steps: it starts, loads, saves and evaluates.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """Seconds of a run. `lost_s`: by cause, what had to be done again and the pause after it."""

    elapsed_s: float
    kept_s: float
    lost_s: Mapping[str, float]
    other_s: float
    num_failures: int

    @property
    def share(self) -> float:
        """In [0, 1]. See [Note: goodput]."""
        return min(self.kept_s / self.elapsed_s, 1.0)

    def to_json(self) -> dict[str, Any]:
        """As it stands in a command's document; hours."""
        return {
            "share": self.share,
            "elapsed_h": self.elapsed_s / 3600,
            "kept_h": self.kept_s / 3600,
            "lost_h_by_cause": {cause: seconds / 3600 for cause, seconds in self.lost_s.items()},
            "other_h": self.other_s / 3600,
            "failures": self.num_failures,
        }


def goodput_of(lines: Iterable[Mapping[str, Any]], kept_s: float) -> Goodput | None:
    """The goodput of a run whose ``attempts.jsonl`` is `lines` and whose steps, each once, took `kept_s`.

    None before an attempt has ended. What an attempt lost, and the pause until the next, count under the cause of its
    end; a rewind's hours are work that was kept once and given up, and count under ``rewind``.
    """
    first: float | None = None
    last = 0.0
    before: tuple[float, str] | None = None
    lost: dict[str, float] = {}
    failures = 0
    for line in lines:
        event, hours = line.get("event"), line.get("hours_lost")
        cause = str(line.get("cause") or line.get("outcome") or event or "unknown")
        if event == "start" and (at := _unix(line.get("start"))) is not None:
            first = at if first is None else first
            if before is not None and at > before[0]:
                lost[before[1]] = lost.get(before[1], 0.0) + at - before[0]
        elif event == "end" and (at := _unix(line.get("end"))) is not None:
            last, before = max(last, at), (at, cause)
            failures += line.get("outcome") not in ("done", "stopped")
        if event in ("end", "rewind") and isinstance(hours, int | float) and hours > 0:
            lost[cause] = lost.get(cause, 0.0) + hours * 3600
    if first is None or last <= first:
        return None
    elapsed = last - first
    dear = dict(sorted(lost.items(), key=lambda row: (-row[1], row[0])))
    return Goodput(
        elapsed_s=elapsed,
        kept_s=kept_s,
        lost_s=dear,
        other_s=max(elapsed - kept_s - sum(dear.values()), 0.0),
        num_failures=failures,
    )


def _unix(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None
