"""The lag of all ranks as a map of at most 512 by 512 cells, and as the sentence above it.

[Note: the map's scale]
A cell's colour is the lag as a share of the step, on a logarithmic scale from 0.1% to all of it: a scale by percentile
would show 1% of spread as fire. Where several steps or ranks share a cell, the greatest counts.

[Note: the map's rows]
Ranks stand host by host. Where there are more than the map has rows, a row is a part of one host or some whole hosts,
as many as make few enough rows; it names the rank that was the furthest behind in the mean.
"""

import base64
import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
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


def has_lag(folder: RunFolder) -> bool:
    """Whether anything was written. Looks at names alone."""
    return bool(_stamp(folder.lag))


@lru_cache(maxsize=4)
def _read(folder: Path, _stamp: Stamp, newest: int | None) -> tuple[LagRows, ...]:
    """What each host's watcher wrote, its steps ascending and each once, as it was said last."""
    found: dict[tuple[object, ...], list[LagRows]] = {}
    for block in read_lag(folder, newest=newest):
        found.setdefault((block.host, *block.key), []).append(block)
    return tuple(_once(blocks) for blocks in found.values())


def _once(blocks: list[LagRows]) -> LagRows:
    rows = joined_lag(blocks)
    if (np.diff(rows.steps) > 0).all():
        return rows
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


def _steps_of(hosts: Sequence[LagRows]) -> NDArray[np.int64]:
    return np.unique(np.concatenate(list({host.steps.tobytes(): host.steps for host in hosts}.values())))


def _places(hosts: Sequence[LagRows], steps: NDArray[np.int64]) -> Iterator[tuple[LagRows, NDArray[np.intp]]]:
    """Each host, and where its steps are among `steps`: worked out once for all that have the same."""
    known: dict[bytes, NDArray[np.intp]] = {}
    for host in hosts:
        key = host.steps.tobytes()
        if key not in known:
            known[key] = np.searchsorted(steps, host.steps)
        yield host, known[key]


def _offsets(hosts: Sequence[LagRows], steps: NDArray[np.int64]) -> dict[tuple[int, int], NDArray[np.float32]]:
    """By place in `hosts` and number of its program: how far its median is behind that of all hosts in each step."""
    middles: dict[str, dict[tuple[int, int], NDArray[np.float32]]] = defaultdict(dict)
    for place, (host, at) in enumerate(_places(hosts, steps)):
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


def _lags(
    hosts: Sequence[LagRows], steps: NDArray[np.int64]
) -> Iterator[tuple[tuple[int, ...], NDArray[np.intp], NDArray[np.float32]]]:
    """Ranks, the places of their steps in `steps`, and seconds behind the middle of all ranks of their program there.

    Hosts of the same steps come together, at most MAX_CELLS ranks: thousands of small arrays are dear.
    """
    offsets = _offsets(hosts, steps)
    alike: dict[bytes, list[int]] = defaultdict(list)
    for place, host in enumerate(hosts):
        alike[host.steps.tobytes()].append(place)
    for places in alike.values():
        at = np.searchsorted(steps, hosts[places[0]].steps)
        for some in _together(places, [len(hosts[place].ranks) for place in places]):
            lag = lag_seconds(np.concatenate([hosts[place].most for place in some], axis=1)).astype(np.float32)
            keys = [(place, number) for place in some for number in hosts[place].program_of]
            if any(key in offsets for key in keys):
                none = np.zeros(len(steps), dtype=np.float32)
                lag += np.stack([offsets.get(key, none) for key in keys], axis=1)[at]
            yield tuple(rank for place in some for rank in hosts[place].ranks), at, np.maximum(lag, 0.0)


def _together(places: Sequence[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    held: list[int] = []
    total = 0
    for place, size in zip(places, sizes, strict=True):
        if held and total + size > MAX_CELLS:
            yield held
            held, total = [], 0
        held.append(place)
        total += size
    yield held


def read_table(folder: RunFolder, *, newest: int | None = None) -> LagTable | None:
    """The lag of all hosts' ranks, step by step; None when none was written.

    `newest`: only so many steps, at least, from the end; such a table is kept until a file of it grows.
    """
    stamp = _stamp(folder.lag)
    return (_table if newest is not None else _table.__wrapped__)(folder.lag, stamp, newest) if stamp else None


@lru_cache(maxsize=4)
def _table(folder: Path, stamp: Stamp, newest: int | None) -> LagTable | None:
    hosts = _read(folder, stamp, newest)
    return _table_of(hosts) if hosts else None


def _table_of(hosts: Sequence[LagRows]) -> LagTable:
    ranks = sorted({rank for host in hosts for rank in host.ranks})
    column = {rank: number for number, rank in enumerate(ranks)}
    steps = _steps_of(hosts)
    lag = np.full((len(steps), len(ranks)), np.nan, dtype=np.float32)
    for those, at, behind in _lags(hosts, steps):
        lag[np.ix_(at, np.array([column[rank] for rank in those]))] = behind
    return LagTable(tuple(ranks), steps, lag, _lengths(hosts, steps))


def lag_json(folder: RunFolder, *, low: int | None = None, high: int | None = None) -> dict[str, Any] | None:
    """The map for the script: rows of ranks by host, columns of steps, cells as bytes in base64; None without any lag.

    `words` is the sentence above it. See [Note: the map's rows]. No more than the map is held besides what the files
    have, so that 16,384 ranks fit.
    """
    stamp = _stamp(folder.lag)
    hosts = _read(folder.lag, stamp, None) if stamp else ()
    if not hosts:
        return None
    steps = _steps_of(hosts)
    first = 0 if low is None else int(np.searchsorted(steps, low))
    last = len(steps) if high is None else int(np.searchsorted(steps, high, side="right"))
    if first >= last:
        return None
    rows = map_rows(_host_of_ranks(hosts))
    row_of = {rank: number for number, row in enumerate(rows) for rank in row.ranks}
    starts = _starts(last - first)
    column_of = np.searchsorted(starts, np.arange(last - first), side="right") - 1
    cells = np.zeros((len(rows), len(starts)), dtype=np.uint8)
    worst: dict[int, tuple[float, int]] = {}
    length = np.maximum(_lengths(hosts, steps), 1e-9)
    for those, at, lag in _lags(hosts, steps):
        inside = (at >= first) & (at < last)
        if not inside.any():
            continue
        codes = _codes((lag / length[at, None])[inside])
        columns, in_steps = np.unique(column_of[at[inside] - first], return_index=True)
        of_rank = np.array([row_of[rank] for rank in those])
        order = np.argsort(of_rank, kind="stable")
        here, in_ranks = np.unique(of_rank[order], return_index=True)
        most = np.maximum.reduceat(np.maximum.reduceat(codes, in_steps, axis=0)[:, order], in_ranks, axis=1).T
        where = np.ix_(here, columns)
        cells[where] = np.maximum(cells[where], most)
        for rank, row, mean in zip(those, of_rank.tolist(), codes.mean(axis=0).tolist(), strict=True):
            worst[row] = max(worst.get(row, (-1.0, 0)), (mean, -rank))
    ends = np.append(starts[1:], last - first)
    return {
        "rows": [row.name for row in rows],
        "worst": [abs(worst.get(number, (0.0, row.ranks[0]))[1]) for number, row in enumerate(rows)],
        "hosts": [[number, row.hosts] for number, row in enumerate(rows)
                  if row.hosts is not None and (number == 0 or rows[number - 1].hosts != row.hosts)],
        "steps": [int(steps[first + end - 1]) for end in ends],
        "cells": base64.b64encode(cells.tobytes()).decode(),
        "words": _sentence(_table_of(tuple(_newest(hosts, steps)))),
    }  # fmt: skip


def _lengths(hosts: Sequence[LagRows], steps: NDArray[np.int64]) -> NDArray[np.float32]:
    length = np.zeros(len(steps), dtype=np.float32)
    for host, at in _places(hosts, steps):
        length[at] = np.maximum(length[at], host.length_s)
    return length


def _codes(share: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    codes = 1 + np.clip(np.log(np.maximum(share, LEAST_SHARE) / LEAST_SHARE) / -np.log(LEAST_SHARE), 0, 1) * 254
    return np.where(np.isnan(share), 0, np.rint(codes)).astype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRow:
    """A row of the map. `hosts` names the host or the hosts of its ranks; None where nobody said."""

    ranks: tuple[int, ...]
    hosts: str | None

    @property
    def name(self) -> str:
        first, last = min(self.ranks), max(self.ranks)
        return f"rank {first}" if first == last else f"ranks {first} to {last}"


def _host_of_ranks(hosts: Sequence[LagRows]) -> dict[int, str | None]:
    """Where each rank is, by who wrote of it last."""
    found: dict[int, str | None] = {}
    for host in sorted(hosts, key=lambda each: int(each.steps[-1])):
        found |= dict.fromkeys(host.ranks, host.host)
    return found


def map_rows(host_of: Mapping[int, str | None]) -> list[MapRow]:
    """The rows of the map, at most MAX_CELLS. See [Note: the map's rows]. Pure."""
    by_host: dict[str | None, list[int]] = defaultdict(list)
    for rank in sorted(host_of):
        by_host[host_of[rank]].append(rank)
    size = -(-len(host_of) // MAX_CELLS)
    while len(rows := _rows_of(by_host, size)) > MAX_CELLS:
        size += 1
    return rows


def _rows_of(by_host: Mapping[str | None, Sequence[int]], size: int) -> list[MapRow]:
    """Rows of at most `size` ranks: parts of one host, or several whole hosts."""
    rows: list[MapRow] = []
    held: list[int] = []
    names: list[str | None] = []

    def flush() -> None:
        if held:
            name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
            rows.append(MapRow(ranks=tuple(held), hosts=name))
        held.clear()
        names.clear()

    for host, ranks in by_host.items():
        if len(held) + len(ranks) > size:
            flush()
        if len(ranks) > size:
            rows += [MapRow(ranks=tuple(ranks[at : at + size]), hosts=host) for at in range(0, len(ranks), size)]
        else:
            held += ranks
            names.append(host)
    flush()
    return rows


def _starts(length: int) -> NDArray[np.intp]:
    """Where each of at most MAX_CELLS groups of `length` things begins."""
    return np.unique(np.linspace(0, length, min(length, MAX_CELLS), endpoint=False).astype(np.intp))


def _newest(hosts: Sequence[LagRows], steps: NDArray[np.int64]) -> Iterator[LagRows]:
    """Of each host its rows among the newest steps."""
    low = steps[-NUM_SENTENCE_STEPS:][0]
    for host in hosts:
        first = int(np.searchsorted(host.steps, low))
        if first < len(host.steps):
            yield replace(host, steps=host.steps[first:], length_s=host.length_s[first:],
                          middle_s=host.middle_s[first:], most=host.most[first:], mean=host.mean[first:])  # fmt: skip


def lag_sentence(folder: RunFolder) -> str:
    """Which rank was last most often among the newest steps, and by how much."""
    table = read_table(folder, newest=NUM_SENTENCE_STEPS)
    if table is None:
        return "No lag was recorded: it is written while emberward watches ranks that record their calls."
    return _sentence(table)


def _sentence(table: LagTable) -> str:
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
