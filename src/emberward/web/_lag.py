"""The lag of all ranks as a map of at most 512 by 512 cells, and as the sentence above it.

[Note: the map's scale]
A cell's colour is the lag as a share of the step, on a logarithmic scale from 0.1% to all of it: a scale by percentile
would show 1% of spread as fire. Where several steps or ranks share a cell, the greatest counts.
"""

import base64
import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emberward.report import LagRows, RunFolder, joined_lag, lag_seconds, read_lag

MAX_CELLS = 512
LEAST_SHARE = 1e-3
NUM_SENTENCE_STEPS = 256
MAX_WORST = 8
Stamp = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class LagTable:
    """`lag_s` is (steps, ranks) in seconds, NaN where unknown; `length_s` the length of each step."""

    ranks: tuple[int, ...]
    steps: NDArray[np.int64]
    lag_s: NDArray[np.float32]
    length_s: NDArray[np.float32]


def _stamp(folder: Path) -> Stamp:
    try:
        with os.scandir(folder) as entries:
            return tuple(sorted((each.name, each.stat().st_size) for each in entries if each.name.endswith(".lag")))
    except OSError:
        return ()


@lru_cache(maxsize=4)
def _read(folder: Path, _stamp: Stamp, newest: int | None) -> tuple[LagRows, ...]:
    """What each host's watcher wrote, its steps ascending and each once, as it was said last."""
    found: dict[tuple[object, ...], list[LagRows]] = {}
    for block in read_lag(folder, newest=newest):
        found.setdefault(block.key, []).append(block)
    return tuple(_once(blocks) for blocks in found.values())


def _once(blocks: list[LagRows]) -> LagRows:
    rows = joined_lag(blocks)
    order = np.argsort(rows.steps, kind="stable")
    steps = rows.steps[order]
    last = order[np.flatnonzero(np.append(np.diff(steps), 1))]
    return replace(
        rows,
        steps=rows.steps[last],
        length_s=rows.length_s[last],
        middle_s=rows.middle_s[last],
        most=rows.most[last],
        mean=rows.mean[last],
    )


def _offsets(hosts: Sequence[LagRows], steps: NDArray[np.int64]) -> dict[tuple[int, int], NDArray[np.float32]]:
    """By place in `hosts` and number of its program: how far its median is behind that of all hosts in each step."""
    middles: dict[str, dict[tuple[int, int], NDArray[np.float32]]] = defaultdict(dict)
    for place, host in enumerate(hosts):
        at = np.searchsorted(steps, host.steps)
        for number, program in enumerate(host.programs):
            middle = middles[program][(place, number)] = np.full(len(steps), np.nan, dtype=np.float32)
            middle[at] = host.middle_s[:, number]
    offsets: dict[tuple[int, int], NDArray[np.float32]] = {}
    for of_hosts in middles.values():
        if len(of_hosts) > 1:
            whole = np.stack(list(of_hosts.values()))
            median = np.median if not np.isnan(whole).any() else np.nanmedian
            behind = np.nan_to_num(whole - median(whole, axis=0))
            offsets |= dict(zip(of_hosts, behind, strict=True))
    return offsets


def _lag_of(host: LagRows, place: int, offsets: dict[tuple[int, int], NDArray[np.float32]],
            at: NDArray[np.intp]) -> NDArray[np.float32]:  # fmt: skip
    """Seconds of a host's ranks behind the middle of all ranks of their program, (its steps, its ranks)."""
    lag = lag_seconds(host.most).astype(np.float32)
    behind = {number: offsets[place, number][at] for number in range(len(host.programs)) if (place, number) in offsets}
    if behind:
        none = np.zeros(len(at), dtype=np.float32)
        lag += np.stack([behind.get(number, none) for number in range(len(host.programs))], axis=1)[
            :, list(host.program_of)
        ]
    return np.maximum(lag, 0.0)


def read_table(folder: RunFolder, *, newest: int | None = None) -> LagTable | None:
    """The lag of all hosts' ranks, step by step; None when none was written.

    `newest`: only so many steps, at least, from the end; such a table is kept until a file of it grows.
    """
    stamp = _stamp(folder.lag)
    return (_table if newest is not None else _table.__wrapped__)(folder.lag, stamp, newest) if stamp else None


@lru_cache(maxsize=4)
def _table(folder: Path, stamp: Stamp, newest: int | None) -> LagTable | None:
    hosts = _read(folder, stamp, newest)
    if not hosts:
        return None
    ranks = sorted({rank for host in hosts for rank in host.ranks})
    column = {rank: number for number, rank in enumerate(ranks)}
    steps = np.unique(np.concatenate([host.steps for host in hosts]))
    lag = np.full((len(steps), len(ranks)), np.nan, dtype=np.float32)
    length = np.zeros(len(steps), dtype=np.float32)
    offsets = _offsets(hosts, steps)
    for place, host in enumerate(hosts):
        at = np.searchsorted(steps, host.steps)
        lag[np.ix_(at, np.array([column[rank] for rank in host.ranks]))] = _lag_of(host, place, offsets, at)
        length[at] = np.maximum(length[at], host.length_s)
    return LagTable(tuple(ranks), steps, lag, length)


def lag_json(folder: RunFolder, *, low: int | None = None, high: int | None = None) -> dict[str, Any] | None:
    """The map for the script: rows of ranks, columns of steps, cells as bytes in base64; None without any lag.

    No more than the map is held besides what the files have, so that 16,384 ranks fit.
    """
    stamp = _stamp(folder.lag)
    hosts = _read(folder.lag, stamp, None) if stamp else ()
    if not hosts:
        return None
    ranks = sorted({rank for host in hosts for rank in host.ranks})
    steps = np.unique(np.concatenate([host.steps for host in hosts]))
    first = 0 if low is None else int(np.searchsorted(steps, low))
    last = len(steps) if high is None else int(np.searchsorted(steps, high, side="right"))
    if first >= last:
        return None
    length = np.zeros(len(steps), dtype=np.float32)
    for host in hosts:
        at = np.searchsorted(steps, host.steps)
        length[at] = np.maximum(length[at], host.length_s)
    offsets = _offsets(hosts, steps)
    starts, rank_starts = _starts(last - first), _starts(len(ranks))
    column_of = np.searchsorted(starts, np.arange(last - first), side="right") - 1
    row_of = dict(zip(ranks, (np.searchsorted(rank_starts, np.arange(len(ranks)), side="right") - 1).tolist(),
                      strict=True))  # fmt: skip
    cells = np.zeros((len(rank_starts), len(starts)), dtype=np.uint8)
    for place, host in enumerate(hosts):
        at = np.searchsorted(steps, host.steps)
        inside = (at >= first) & (at < last)
        if not inside.any():
            continue
        share = (_lag_of(host, place, offsets, at) / np.maximum(length[at, None], 1e-9))[inside]
        codes = 1 + np.clip(np.log(np.maximum(share, LEAST_SHARE) / LEAST_SHARE) / -np.log(LEAST_SHARE), 0, 1) * 254
        codes = np.where(np.isnan(share), 0, np.rint(codes)).astype(np.uint8)
        columns, in_steps = np.unique(column_of[at[inside] - first], return_index=True)
        rows, in_ranks = np.unique([row_of[rank] for rank in host.ranks], return_index=True)
        most = np.maximum.reduceat(np.maximum.reduceat(codes, in_steps, axis=0), in_ranks, axis=1).T
        where = np.ix_(rows, columns)
        cells[where] = np.maximum(cells[where], most)
    ends = np.append(starts[1:], last - first)
    return {
        "ranks": [ranks[start] for start in rank_starts],
        "ranks_a_row": -(-len(ranks) // MAX_CELLS),
        "steps": [int(steps[first + end - 1]) for end in ends],
        "cells": base64.b64encode(cells.tobytes()).decode(),
    }


def _starts(length: int) -> NDArray[np.intp]:
    """Where each of at most MAX_CELLS groups of `length` things begins."""
    return np.unique(np.linspace(0, length, min(length, MAX_CELLS), endpoint=False).astype(np.intp))


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
