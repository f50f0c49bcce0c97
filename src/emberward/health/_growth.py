"""Who became slower when steps did: the ranks whose own part of a step grew by most of the change. Pure.

[Note: who became slower]
Ranks that meet in collectives all become slower together. Their *own* parts of a step ([Note: waited for]) do not: who
is waited for spends more time of its own since the change, and the others spend more in waiting. So a rank is one whose
change it is when its own part grew by MOST of what a step grew by. When that holds for more than half of the
ranks it is what all share (the data, the program, a host they are all on), and nobody is named. When it holds for none,
the time went into calls: a link, or a rank that is not seen here. Where each step is long for another rank's part it
may be chance: such a change is told when it is MIN_BEFORE steps old.

One of many ranks that becomes a little slower makes steps longer by less, for by chance another one was late anyway:
of eight ranks whose own parts differ by 2% from step to step, a twentieth of one is 2% of the step. So each rank's own
part less the median of those that run the same program is watched too, by [Note: change of a level]. It counts when
steps became longer since by MIN_COST: else nobody waits for it.
"""

import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from emberward.health._lateness import MIN_EXCESS_S, MIN_WATCHED_S
from emberward.health._lateness import MIN_SHARE as MIN_OWN_SHARE
from emberward.health._level import AFTER, EVERY, MIN_BEFORE, WIDTH, Floats, first_of_change, is_back, level_changes
from emberward.health._slowdown import GrownRanks, Growth, Slowdown, SlowdownWatch

MOST = 0.5
"""Of a change, for it to be a rank's: the rest may be others' noise, in the longest of all ranks' parts."""
MIN_COST = 0.01
"""Of a step, what steps must have become longer by for a rank to be waited for."""


@dataclass(frozen=True, slots=True)
class _Row:
    step: int
    step_s: float
    own_s: Floats
    excess_s: Floats


@dataclass(slots=True)
class _Held:
    """A change that was told. `column` and its levels: of the rank by whose own part it was found."""

    change: Slowdown
    column: int | None = None
    before_s: float = 0.0
    since_s: float = 0.0


class RankSlowdownWatch:
    """Sees the steps of a job one after the other, with each rank's own part. Pure. See [Note: who became slower]."""

    def __init__(self) -> None:
        self._lengths = SlowdownWatch()
        self._ranks: tuple[int, ...] = ()
        self._rows: deque[_Row] = deque(maxlen=WIDTH)
        self._num_seen = 0
        self._held: list[_Held] = []
        self._doubted: Slowdown | None = None

    @property
    def now(self) -> tuple[Slowdown, ...]:
        """The changes that hold."""
        return tuple(held.change for held in self._held)

    def see(self, *, step: int, step_s: float, own_s: Sequence[Mapping[int, float]] = ()) -> tuple[Slowdown, ...]:
        """What this step turned: changes that are sure now, and ends of some (`is_over`).

        `own_s`: rank -> seconds outside of calls, a mapping for each program that ranks run; nothing of a step of which
        one is not known.
        """
        if own_s:
            self._keep(step, step_s, own_s)
        turn = self._lengths.see(step=step, step_s=step_s)
        found = [] if turn is None else self._turned(turn)
        if self._doubted is not None and step >= self._doubted.first_step + MIN_BEFORE:
            found += self._hold(replace(self._doubted, step=step))
        if own_s and self._num_seen % EVERY == 0 and len(self._ranks) > 1:
            found += self._ended(step)
            found += self._grown(step)
        return tuple(found)

    def _keep(self, step: int, step_s: float, own_s: Sequence[Mapping[int, float]]) -> None:
        ranks = tuple(rank for peers in own_s for rank in sorted(peers))
        if ranks != self._ranks:
            self._rows.clear()
            self._held = [held for held in self._held if held.column is None]
            self._ranks = ranks
        own = np.array([peers[rank] for peers in own_s for rank in sorted(peers)], dtype=np.float64)
        excess = np.concatenate([_excess(np.array([peers[rank] for rank in sorted(peers)])) for peers in own_s])
        self._rows.append(_Row(step, step_s, own, excess))
        self._num_seen += 1

    def _turned(self, turn: Slowdown) -> list[Slowdown]:
        """The change of all steps, with the ranks whose change it is."""
        if turn.is_over:
            self._doubted = None
            over = [held for held in self._held if held.column is None]
            self._held = [held for held in self._held if held.column is not None]
            return [replace(turn, grown=held.change.grown) for held in over]
        if self._is_chance(turn):
            self._doubted = turn
            return []
        return self._hold(turn)

    def _hold(self, turn: Slowdown) -> list[Slowdown]:
        self._doubted = None
        change = self.attributed(turn)
        if change.grown.culprits and set(change.grown.culprits) <= self._named():
            return []
        self._held.append(_Held(change))
        return [change]

    def _is_chance(self, change: Slowdown) -> bool:
        """Whether each step of the change is long for one rank's own part, and not for the same one's."""
        before = [row.own_s for row in self._rows if row.step < change.first_step]
        since = [row for row in self._rows if row.step >= change.first_step]
        if not before or not since or not self._ranks or self.attributed(change).grown.members:
            return False
        middle = np.median(before, axis=0)
        return all((row.own_s - middle).max() >= MOST * (row.step_s - change.level_s) for row in since)

    def _named(self) -> set[int]:
        return {rank for held in self._held for rank in held.change.grown.culprits}

    def attributed(self, change: Slowdown) -> Slowdown:
        """The change with those whose own parts grew by most of it, by all steps that were seen since."""
        before = [row.own_s for row in self._rows if row.step < change.first_step]
        since = [row.own_s for row in self._rows if row.step >= change.first_step]
        if not before or not since or not self._ranks:
            return change
        # Of two steps the less: a rank that was slow in one of them alone is not it.
        early, late = np.median(before, axis=0), np.sort(since, axis=0)[(len(since) - 1) // 2]
        all_grown = [
            Growth(rank=rank, before_s=float(early[i]), now_s=float(late[i])) for i, rank in enumerate(self._ranks)
        ]
        return replace(change, grown=grown_ranks(all_grown, change.now_s - change.level_s))

    def _grown(self, step: int) -> list[Slowdown]:
        """Ranks whose own parts grew beside their peers', and made steps longer."""
        if len(self._rows) < MIN_BEFORE + AFTER:
            return []
        lengths = np.array([row.step_s for row in self._rows])
        if float(lengths[-AFTER:].sum()) < MIN_WATCHED_S:
            return []
        excess = np.array([row.excess_s for row in self._rows])
        least = max(MIN_OWN_SHARE * float(np.median(lengths[:-AFTER])), MIN_EXCESS_S)
        found = level_changes(excess, np.full(len(self._ranks), least))
        columns = [int(i) for i in np.flatnonzero(found) if self._ranks[int(i)] not in self._named()]
        if not columns or 2 * len(columns) > len(self._ranks):
            return []
        first = min(first_of_change(excess[:, column]) for column in columns)
        level_s, now_s = float(np.median(lengths[:first])), float(np.median(lengths[first:]))
        if now_s - level_s < MIN_COST * level_s:
            return []
        own = np.array([row.own_s for row in self._rows])
        grown = [
            Growth(
                rank=self._ranks[column],
                before_s=float(np.median(own[:first, column])),
                now_s=float(np.median(own[first:, column])),
            )
            for column in columns
        ]
        change = Slowdown(
            first_step=self._rows[first].step,
            step=step,
            level_s=level_s,
            now_s=now_s,
            grown=GrownRanks(members=_ordered(grown), num_known=len(self._ranks)),
        )
        main = max(columns, key=lambda each: float(np.median(excess[first:, each]) - np.median(excess[:first, each])))
        levels = float(np.median(excess[:first, main])), float(np.median(excess[first:, main]))
        self._held.append(_Held(change, main, *levels))
        return [change]

    def _ended(self, step: int) -> list[Slowdown]:
        """Changes of single ranks that hold no more."""
        over = []
        for held in [held for held in self._held if held.column is not None]:
            newest = [float(row.excess_s[held.column]) for row in self._rows]
            if is_back(newest, before=held.before_s, since=held.since_s):
                self._held.remove(held)
                now_s = statistics.median(row.step_s for row in [*self._rows][-AFTER // 2 :])
                over.append(replace(held.change, step=step, now_s=now_s, is_over=True))
        if over:
            self._rows.clear()
        return over


def grown_ranks(ranks: Sequence[Growth], grown_s: float) -> GrownRanks:
    """Of all ranks that are known those whose own parts grew by MOST of `grown_s`."""
    members = _ordered([each for each in ranks if each.grown_s >= MOST * grown_s])
    return GrownRanks(members=members, num_known=len(ranks))


def _ordered(grown: Sequence[Growth]) -> tuple[Growth, ...]:
    return tuple(sorted(grown, key=lambda each: -each.grown_s))


def _excess(own: Floats) -> Floats:
    """Each rank's own part less the median of its peers', as in [Note: waited for]; nothing for a rank without any."""
    if len(own) < 2:
        return np.zeros(len(own))
    return own - (own[::-1] if len(own) == 2 else np.median(own))
