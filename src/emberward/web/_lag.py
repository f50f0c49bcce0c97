"""The lag of all ranks as a map of at most 512 by 512 cells, and as the sentence above it.

[Note: the map's scale]
A cell's colour is the lag as a share of the step, on a logarithmic scale from 0.1% to all of it: a scale by percentile
would show 1% of spread as fire. Where several steps or ranks share a cell, the greatest counts.
"""

import base64
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emberward.report import RunFolder, lag_seconds, read_lag

MAX_CELLS = 512
LEAST_SHARE = 1e-3
NUM_SENTENCE_STEPS = 256
MAX_WORST = 8


@dataclass(frozen=True, slots=True)
class LagTable:
    """`lag_s` is (steps, ranks) in seconds, NaN where unknown; `length_s` the length of each step."""

    ranks: tuple[int, ...]
    steps: NDArray[np.int64]
    lag_s: NDArray[np.float32]
    length_s: NDArray[np.float32]


def _stamp(folder: Path) -> tuple[tuple[str, int], ...]:
    try:
        return tuple(sorted((path.name, path.stat().st_size) for path in folder.glob("*.lag")))
    except OSError:
        return ()


def read_table(folder: RunFolder, *, newest: int | None = None) -> LagTable | None:
    """The lag of all hosts' ranks; None when none was written. Kept until a file of it grows.

    `newest`: only so many steps, at least, from the end.
    """
    stamp = _stamp(folder.lag)
    return _table(folder.lag, stamp, newest) if stamp else None


@lru_cache(maxsize=8)
def _table(folder: Path, _stamp: tuple[tuple[str, int], ...], newest: int | None) -> LagTable | None:
    blocks = read_lag(folder, newest=newest)
    if not blocks:
        return None
    ranks = sorted({rank for block in blocks for rank in block.ranks})
    column = {rank: number for number, rank in enumerate(ranks)}
    steps = np.unique(np.concatenate([block.steps for block in blocks]))
    lag = np.full((len(steps), len(ranks)), np.nan, dtype=np.float32)
    length = np.zeros(len(steps), dtype=np.float32)
    # The medians of each host's ranks of one program: what hosts differ by as a whole.
    middles: dict[str, dict[int, NDArray[np.float32]]] = defaultdict(dict)
    programs: dict[tuple[str, int], str] = {}
    for block in blocks:
        rows = np.searchsorted(steps, block.steps)
        lag[np.ix_(rows, np.array([column[rank] for rank in block.ranks]))] = lag_seconds(block.most)
        length[rows] = np.maximum(length[rows], block.length_s)
        for number, program in enumerate(block.programs):
            first = min(rank for rank, index in zip(block.ranks, block.program_of, strict=True) if index == number)
            middle = middles[program].setdefault(first, np.full(len(steps), np.nan, dtype=np.float32))
            middle[rows] = block.middle_s[:, number]
            for rank, index in zip(block.ranks, block.program_of, strict=True):
                if index == number:
                    programs[(program, rank)] = str(first)
    for program, hosts in middles.items():
        if len(hosts) < 2:
            continue
        all_hosts = np.nanmedian(np.stack(list(hosts.values())), axis=0)
        for (name, rank), first_name in programs.items():
            if name == program:
                offset = hosts[int(first_name)] - all_hosts
                lag[:, column[rank]] += np.where(np.isnan(offset), 0.0, offset)
    return LagTable(tuple(ranks), steps, np.maximum(lag, 0.0), length)


def lag_json(folder: RunFolder, *, low: int | None = None, high: int | None = None) -> dict[str, Any] | None:
    """The map for the script: rows of ranks, columns of steps, cells as bytes in base64; None without any lag."""
    table = read_table(folder)
    if table is None:
        return None
    first = 0 if low is None else int(np.searchsorted(table.steps, low))
    last = len(table.steps) if high is None else int(np.searchsorted(table.steps, high, side="right"))
    if first >= last:
        return None
    steps, lag = table.steps[first:last], table.lag_s[first:last]
    share = lag / np.maximum(table.length_s[first:last, None], 1e-9)
    codes = 1 + np.clip(np.log(np.maximum(share, LEAST_SHARE) / LEAST_SHARE) / -np.log(LEAST_SHARE), 0, 1) * 254
    cells = np.where(np.isnan(share), 0, np.rint(codes)).astype(np.uint8)
    cells, starts = _grouped(cells, axis=0)
    ends = np.append(starts[1:], len(steps))
    cells, rank_starts = _grouped(cells, axis=1)
    return {
        "ranks": [table.ranks[start] for start in rank_starts],
        "ranks_a_row": -(-len(table.ranks) // MAX_CELLS),
        "steps": [int(steps[end - 1]) for end in ends],
        "cells": base64.b64encode(cells.T.tobytes()).decode(),
    }


def _grouped(cells: NDArray[np.uint8], *, axis: int) -> tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """At most MAX_CELLS groups along an axis, the greatest of each, and where each begins."""
    length = cells.shape[axis]
    starts = np.unique(np.linspace(0, length, min(length, MAX_CELLS), endpoint=False).astype(np.intp))
    return np.maximum.reduceat(cells, starts, axis=axis), starts


def lag_sentence(folder: RunFolder) -> str:
    """Which rank was last most often among the newest steps, and by how much."""
    table = read_table(folder, newest=NUM_SENTENCE_STEPS)
    if table is None:
        return "No lag was recorded: it is written while emberward watches ranks that record their calls."
    lag = table.lag_s[-NUM_SENTENCE_STEPS:]
    known = ~np.all(np.isnan(lag), axis=1)
    lag = lag[known]
    if not len(lag) or len(table.ranks) < 2:
        return "Too little was recorded to compare ranks."
    last = np.argmax(np.nan_to_num(lag, nan=-1.0), axis=1)
    column, times = Counter(last.tolist()).most_common(1)[0]
    behind = statistics.median(float(value) for value in lag[last == column, column])
    length = statistics.median(float(value) for value in table.length_s[-NUM_SENTENCE_STEPS:][known])
    share = 100 * behind / length if length else 0.0
    return (
        f"Rank {table.ranks[column]} was last most often: in {times} of the newest {len(lag)} rows of steps, "
        f"{_time(behind)} behind the middle of its peers ({share:.0f}% of a step of {_time(length)})."
    )


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def worst_lags(folder: RunFolder, *, num_steps: int = 60) -> dict[int, list[float | None]]:
    """Seconds that ranks were behind their peers in the newest steps, the worst rank first; {} without any lag."""
    table = read_table(folder, newest=num_steps)
    if table is None or len(table.ranks) < 2:
        return {}
    lag = table.lag_s[-num_steps:]
    order = np.argsort(-np.nan_to_num(lag).sum(axis=0), kind="stable")[:MAX_WORST]
    return {
        table.ranks[column]: [None if np.isnan(value) else float(value) for value in lag[:, column]] for column in order
    }


def lag_frame(folder: RunFolder) -> dict[str, list[float | None]]:
    """A column ``step`` and one a rank, in seconds behind the peers; only ``step``, and empty, without any lag."""
    table = read_table(folder)
    if table is None:
        return {"step": []}
    columns = {f"rank {rank}": table.lag_s[:, place] for place, rank in enumerate(table.ranks)}
    return {
        "step": [int(step) for step in table.steps],
        **{name: [None if np.isnan(value) else float(value) for value in values] for name, values in columns.items()},
    }
