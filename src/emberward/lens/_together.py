"""Stalls that are one change of a program put together. Pure.

[Note: one change]
A helper that logs, prints or reads at some of its lines does one thing: who changes it changes all of them. Stalls of
one cause in one function of the program's, which is none of those that every step ends in, are one, at the line that
costs most.
"""

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from emberward.findings import Cause
from emberward.lens._samples import RankSamples
from emberward.lens._source import Sources

if TYPE_CHECKING:
    from emberward.lens._stalls import RankStall

_APART = frozenset({Cause.GC, Cause.SLEEP, Cause.LOCK, Cause.ALLOCATOR_RETRY, Cause.DATA_WAIT})
"""Causes whose lines are changed one by one."""
Key = tuple[Cause, str]


def put_together(
    by_rank: Mapping[int, Sequence["RankStall"]], ranks: Sequence[RankSamples], sources: Sources
) -> dict[int, tuple["RankStall", ...]]:
    """The stalls of each rank, those of one cause and function as one."""
    loops = {(file, function) for rank in ranks for file, function, _ in rank.loop}
    cost: dict[Key, float] = defaultdict(float)
    for stall in (stall for stalls in by_rank.values() for stall in stalls):
        cost[stall.told.cause, stall.told.site] += stall.cost_s
    groups: dict[tuple[Cause, str, int], list[Key]] = defaultdict(list)
    for key in cost:
        function = _helper_at(key[1], sources, loops)
        if function is not None and key[0] not in _APART:
            groups[key[0], *function].append(key)
    into = {key: max(group, key=lambda each: cost[each]) for group in groups.values() for key in group}
    return {rank: _merged(stalls, into) for rank, stalls in by_rank.items()}


def _helper_at(site: str, sources: Sources, loops: Set[tuple[str, str]]) -> tuple[str, int] | None:
    """File and line of the function in which a line stands; None where each step ends in it, or there is none."""
    file, _, number = site.rpartition(":")
    line = int(number) if number.isdigit() else 0
    around = [
        node
        for node in ast.walk(sources.of(file).tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not around or any((file, node.name) in loops for node in around):
        return None
    return file, max(node.lineno for node in around)


def _merged(stalls: Sequence["RankStall"], into: Mapping[Key, Key]) -> tuple["RankStall", ...]:
    groups: dict[Key, list[RankStall]] = defaultdict(list)
    for stall in stalls:
        key = stall.told.cause, stall.told.site
        groups[into.get(key, key)].append(stall)
    found = []
    for key, each in groups.items():
        first = next((one for one in each if one.told.site == key[1]), each[0])
        if len(each) == 1 and first.told.site == key[1]:
            found.append(first)
            continue
        total_s = sum(one.cost_s for one in each)
        seen: dict[int, tuple[float, float | None]] = {}
        for step in sorted({step for one in each for step in one.seen}):
            parts = [one.seen[step] for one in each if step in one.seen]
            known = [(seconds, at_s) for seconds, at_s in parts if at_s is not None and seconds > 0]
            weight = sum(seconds for seconds, _ in known)
            at = sum(seconds * at_s for seconds, at_s in known) / weight if weight else None
            seen[step] = sum(seconds for seconds, _ in parts), at
        found.append(
            replace(
                first,
                told=replace(first.told, site=key[1]),
                cost_s=total_s,
                num_steps=len(seen),
                busy_share=sum(one.busy_share * one.cost_s for one in each) / max(total_s, 1e-9),
                seen=seen,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.cost_s))
