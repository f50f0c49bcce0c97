"""The steps of a program that computes no gradients: turns of its loop, seen from beside. Standard library only.

[Note: turns of the loop]
An evaluation, an evolution, a search: no optimizer and no backward ends a step there. The thread that trains is looked
at from the start, as [Note: how a step is sampled] says, and each snapshot is kept by itself. Where an instruction of a
frame comes before the one that was seen last in the same frame, the smallest loop around both has made a turn; where
none is around both, the function was entered again, and its caller's loop has. A step is a turn of the outermost loop
with `MIN_TURNS` of them, and lasts from one snapshot to another: its ends are right to some milliseconds, and turns in
which the snapshots see one and the same instruction alone are one. Nothing is kept of a program that ends a step.
"""

import bisect
import dis
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from emberward.events import Owner, main_package, owner_of
from emberward.sources._sampler import Sampler, Seen

MIN_TURNS = 10
MAX_SEEN = 200_000
"""Halves of looks that are kept: of some eight minutes."""

Range = tuple[int, int]
Loop = tuple[tuple[CodeType, ...], Range]
"""The functions from the outermost to that of a loop, and the loop's first and last instruction in it."""


class TurnWatch(Sampler):
    """Samples the thread that makes it, from then on until `dismiss` or `end`."""

    def __init__(self, path: Callable[[], Path], *, warmup: int, num_steps: int, **named: Any) -> None:
        """`path`: where to write, asked when it is written, for a rank is told late."""
        super().__init__(path(), warmup=warmup, num_steps=num_steps, **named)
        self._named = path
        self._seen: list[tuple[int, Seen, tuple[int, int, int]]] = []
        self._is_dismissed = False
        self._waited = 0
        self._begin()

    def dismiss(self) -> None:
        """The program ends steps: nothing is written."""
        self._is_dismissed = True
        self._finish()
        self._seen.clear()

    def _note_loop(self) -> None:
        """Which loop it is, all snapshots tell."""

    def _add(self, key: Seen, step: int, spent: tuple[int, int, int], at_ns: int) -> None:
        if len(self._seen) < MAX_SEEN:
            self._seen.append((at_ns, key, spent))

    def _waited_ns(self, *, is_last: bool) -> int:
        return self._waited

    def _write(self, *, is_last: bool) -> None:
        if not self._is_dismissed and self._find_steps():
            self._path = self._named()
            super()._write(is_last=is_last)

    def _find_steps(self) -> bool:
        """Whether a loop has turns enough; what was seen is then in its steps."""
        seen = sorted(self._seen, key=lambda each: each[0])
        found = self._turns([each for each in seen if not each[1][1]])
        loops = [loop for loop, turns in found.items() if len(turns) >= MIN_TURNS]
        if not loops:
            return False
        chosen = min(loops, key=lambda loop: (len(loop[0]), loop[1][0] - loop[1][1]))
        self._loop = chosen[0]
        self._bounds = found[chosen][self._warmup - 1 :][: self._num_steps + 1]
        self._step = self._warmup + len(self._bounds) - 1
        self._waited = 0
        self._stacks.clear()
        for at_ns, key, spent in seen:
            at = bisect.bisect_right(self._bounds, at_ns)
            if 0 < at < len(self._bounds):
                self._waited += spent[2]
                super()._add(key, self._warmup + at - 1, spent, at_ns)
        return len(self._bounds) > 1

    def _turns(self, seen: list[tuple[int, Seen, tuple[int, int, int]]]) -> dict[Loop, list[int]]:
        """When each loop of the program made a turn.

        A function that begins anew tells a turn of the loop that calls it, or that one turn calls it twice: where most
        turns show in the loop's own function, those alone count.
        """
        found: dict[Loop, list[tuple[int, bool]]] = defaultdict(list)
        program = main_package()
        before: list[tuple[CodeType, int]] = []
        last_ns = 0
        for at_ns, key, _ in seen:
            now = [self._codes[at] for at in reversed(key[0]) if at in self._codes]
            loop, is_own = _turned(before, now)
            if loop is not None and owner_of(loop[0][-1].co_filename, program) is Owner.USER:
                found[loop].append(((last_ns + at_ns) // 2, is_own))
            before, last_ns = now, at_ns
        turns = {}
        for loop, seen_at in found.items():
            own = [ns for ns, is_own in seen_at if is_own]
            turns[loop] = own if 2 * len(own) >= len(seen_at) else [ns for ns, _ in seen_at]
        return turns


def _turned(before: list[tuple[CodeType, int]], now: list[tuple[CodeType, int]]) -> tuple[Loop | None, bool]:
    """The loop that has made a turn between two stacks, outermost first, and whether its own function shows it."""
    for depth, ((code, was), (other, at)) in enumerate(zip(before, now, strict=False)):
        if code is not other or at > was:
            return None, False
        if at < was:
            around = [(code, (at, was)), *((now[i][0], (now[i][1],) * 2) for i in range(depth - 1, -1, -1))]
            for up, (each, (first, last)) in enumerate(around):
                inside = [(a, b) for a, b in loops_of(each) if a <= first and last <= b]
                if inside:
                    codes = tuple(code for code, _ in now[: depth + 1 - up])
                    return (codes, min(inside, key=lambda loop: loop[1] - loop[0])), up == 0
            return None, False
    return None, False


@cache
def loops_of(code: CodeType) -> tuple[Range, ...]:
    """First and last instruction of each loop of a function, by its backward jumps."""
    jumps = [each for each in dis.get_instructions(code) if "JUMP_BACKWARD" in each.opname]
    return tuple((int(each.argval), each.offset) for each in jumps)
