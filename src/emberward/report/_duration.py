"""How long something took, in the units that people say it in."""

import itertools
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def duration_text(seconds: float) -> str:
    """``42 s``, ``3 min 7 s``, ``2 h 3 min`` or ``5 d 4 h``: the largest unit that is not 0, and the next."""
    whole = max(round(seconds), 0)
    for (name, size), (smaller, least) in itertools.pairwise(_UNITS):
        if whole >= size:
            count, rest = divmod(round(whole / least), size // least)
            return f"{count} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def running_s(lines: Iterable[Mapping[str, Any]], *, until_unix: float) -> float:
    """Seconds that the attempts of ``attempts.jsonl`` ran: each to its end, one that has none to `until_unix`."""
    starts: dict[object, float] = {}
    total_s = 0.0
    for line in lines:
        if line.get("event") == "start":
            starts[line.get("attempt")] = _unix(line.get("start"))
        elif line.get("event") == "end":
            starts.pop(line.get("attempt"), None)
            total_s += (line.get("hours") or 0.0) * 3600
    # Of several without an end, launchers that died, only the last can still run.
    return total_s + (max(until_unix - list(starts.values())[-1], 0.0) if starts else 0.0)


def _unix(text: object) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return float("inf")
