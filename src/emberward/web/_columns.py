"""A run's metrics as columns, read once and then from where the file grew; and reduced to what a chart can show.

[Note: reduced columns]
A chart has far fewer columns of pixels than a run has steps. For each stretch of steps the least, the greatest and the
last value are kept, with the steps of the first two, and how many values were missing or not finite. So a spike of one
step among a million is drawn at every zoom, with its exact step and value. Averages and random samples lose it.
"""

import math
from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emberward.report import LineTail, RunFolder

EXACT = ("loss", "grad_norm", "step_s")
"""Columns whose extremes are kept with their steps."""
BANDED = (*EXACT, "tokens_per_s")
"""Columns whose least and greatest value of a stretch are kept."""
PARTS = ("data_s", "forward_s", "backward_s", "exchange_s", "optimizer_s", "save_blocked_s")
"""What a step's time went to."""
COLUMNS = (*BANDED, "lr", "mfu", *PARTS)
MAX_POINTS = 1500
MAX_BAD = 200
"""Steps that were not finite or not used which are named one by one."""


@dataclass
class Columns:
    """The steps of a run in ascending order. `generation` changes when steps that were given do not hold any more.

    A missing value is NaN. `bad`: steps without an update, or with a loss or a gradient that was not finite.
    """

    folder: RunFolder
    generation: int = 0
    steps: "array[int]" = field(default_factory=lambda: array("q"))
    values: "dict[str, array[float]]" = field(
        default_factory=lambda: {name: array("d" if name in EXACT else "f") for name in COLUMNS}
    )
    bad: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._path = self.folder.curve
        self._tail = LineTail(self._path)

    def __len__(self) -> int:
        return len(self.steps)

    def poll(self) -> int:
        """Reads what the file got since the last call; the number of new steps. Blocks for about 10 us a step."""
        before = len(self.steps)
        if not before and self.folder.curve != self._path:
            self.__post_init__()
        # A file that shrank or was replaced is given again from its start: its first step cuts what was read.
        while rows := self._tail.poll():
            for row in rows:
                self._take(row)
        return len(self.steps) - before

    def _take(self, row: dict[str, Any]) -> None:
        step = row.get("step")
        if not isinstance(step, int) or not 0 <= step < 1 << 62:
            return
        if self.steps and step <= self.steps[-1]:
            # A resume does steps again: what was read of them before does not hold.
            self._cut(int(np.searchsorted(np.frombuffer(self.steps, dtype=np.int64), step)))
        self.steps.append(step)
        for name, column in self.values.items():
            value = row.get(name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            number = float(value) if is_number and value is not None else math.nan
            column.append(number if math.isfinite(number) else math.nan)
        if row.get("nan") or row.get("skipped") or row.get("loss", 0.0) is None:
            self.bad.append(step)

    def _cut(self, length: int) -> None:
        if length >= len(self.steps):
            return
        self.generation += 1
        del self.steps[length:]
        for column in self.values.values():
            del column[length:]
        last = self.steps[-1] if self.steps else -1
        self.bad = [step for step in self.bad if step <= last]

    def trained_s(self, until: int | None) -> float | None:
        """Seconds of all steps up to and with `until`, of all without; None where no step has a time."""
        seconds = np.asarray(self.values["step_s"], dtype=np.float64)
        if not np.isfinite(seconds).any():
            return None
        steps = np.frombuffer(self.steps, dtype=np.int64)
        last = len(steps) if until is None else int(np.searchsorted(steps, until, side="right"))
        return float(np.nansum(seconds[:last]))

    def reduced(self, *, low: int | None = None, high: int | None = None, points: int = MAX_POINTS) -> dict[str, Any]:
        """The steps from `low` to `high`, both included, in at most `points` stretches. See [Note: reduced columns]."""
        steps = np.frombuffer(self.steps, dtype=np.int64) if self.steps else np.zeros(0, dtype=np.int64)
        first = 0 if low is None else int(np.searchsorted(steps, low))
        last = len(steps) if high is None else int(np.searchsorted(steps, high, side="right"))
        inside = steps[first:last]
        head = {"generation": self.generation, "rows": len(self.steps), "bad": self._bad(inside)}
        if len(inside) <= points:
            columns = {
                name: {"last": _plain(np.asarray(column, dtype=np.float64)[first:last])}
                for name, column in self.values.items()
            }
            return {**head, "is_reduced": False, "step": inside.tolist(), "columns": columns}
        edges = np.linspace(inside[0], inside[-1] + 1, max(points, 1) + 1)
        starts = np.unique(np.searchsorted(inside, edges[:-1]))
        starts = starts[starts < len(inside)]
        ends = np.append(starts[1:], len(inside))
        columns = {
            name: _stretches(np.asarray(column, dtype=np.float64)[first:last], inside, starts, ends, name=name)
            for name, column in self.values.items()
        }
        return {**head, "is_reduced": True, "step": inside[ends - 1].tolist(), "columns": columns}

    def since(self, row: int) -> dict[str, Any]:
        """The steps after the first `row`, whole."""
        return {
            "generation": self.generation,
            "rows": len(self.steps),
            "bad": [step for step in self.bad[-MAX_BAD:] if row < len(self.steps) and step >= self.steps[row]],
            "step": self.steps[row:].tolist(),
            "columns": {name: {"last": _plain(np.asarray(column[row:]))} for name, column in self.values.items()},
        }

    def _bad(self, inside: NDArray[np.int64]) -> list[int]:
        if not len(inside):
            return []
        return [step for step in self.bad if inside[0] <= step <= inside[-1]][-MAX_BAD:]


def _stretches(
    values: NDArray[np.float64],
    steps: NDArray[np.int64],
    starts: NDArray[np.intp],
    ends: NDArray[np.intp],
    *,
    name: str,
) -> dict[str, Any]:
    """Last value of each stretch; as the column needs them also the least and greatest, and the steps of these."""
    if name in PARTS:
        # Of the step itself: parts of different steps make no whole.
        return {"last": _plain(values[ends - 1])}
    is_there = np.isfinite(values)
    counts = np.add.reduceat(is_there, starts)
    if not counts.any():
        return {"last": [None] * len(starts)}
    places = np.maximum.accumulate(np.where(is_there, np.arange(len(values)), -1))[ends - 1]
    last = np.where(places >= starts, values[np.maximum(places, 0)], np.nan)
    out: dict[str, Any] = {"last": _plain(last)}
    if name not in BANDED:
        return out
    least = np.minimum.reduceat(np.where(is_there, values, np.inf), starts)
    greatest = np.maximum.reduceat(np.where(is_there, values, -np.inf), starts)
    empty = counts == 0
    least[empty], greatest[empty] = np.nan, np.nan
    out |= {"min": _plain(least), "max": _plain(greatest)}
    if name in EXACT:
        of = np.repeat(np.arange(len(starts)), ends - starts)
        for name, extremes in (("min_at", least), ("max_at", greatest)):
            hits = np.flatnonzero(values == extremes[of])
            at = np.zeros(len(starts), dtype=np.int64)
            at[of[hits[::-1]]] = steps[hits[::-1]]
            out[name] = at.tolist()
    return out


def _plain(values: NDArray[Any]) -> list[float | None]:
    """Numbers of 7 significant digits; None, which charts draw as a gap, where there is none."""
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values.tolist()]
