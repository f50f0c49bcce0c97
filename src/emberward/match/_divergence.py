"""Where two ranks' control flow parts so that their calls differ, and which of them leaves what it did before.

See [Note: executed statements] in `_flow.py`.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from emberward.match._flow import Frame, Item, Loop, Step, calls_in, new_steps, steps_in

Token = Callable[[int], Hashable]
"""What an event of one side must share with one of the other to be the same call; None for what is not compared."""
Run = tuple[Item | Frame | int, ...]
MAX_AHEAD = 64
"""Most functions run by one statement among which one is searched that the other side runs next."""


@dataclass(frozen=True, slots=True)
class Decision:
    """After the statement at `line` the sides go on at different steps; None for a side that leaves the block.

    `is_loop`: the statement is the header of a loop, which one side leaves while the other begins a further round.
    """

    file: str
    line: int
    steps: tuple[Step | None, Step | None] = (None, None)
    is_loop: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Divergence:
    """What each side alone executes after `decision`, and the compared calls therein.

    `before`: how many compared calls each side had made by then.
    """

    decision: Decision
    runs: tuple[Run, Run]
    calls: tuple[tuple[int, ...], tuple[int, ...]]
    before: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Departing:
    """The side (0 or 1) whose control flow leaves what was to be expected, where it decided so, and by what we know."""

    side: int
    site: str
    why: str


class Alignment:
    """Walks two programs side by side; `found` are the places where their compared calls differ, as executed."""

    def __init__(self, left: Token, right: Token, *, is_ordered: bool = True) -> None:
        """`is_ordered` False: two roles make the same calls in another order, as the ends of transfers do."""
        self._tokens = (left, right)
        self._is_ordered = is_ordered
        self._counts = [0, 0]
        self.found: list[Divergence] = []

    def frames(self, left: Frame, right: Frame) -> Decision | None:
        """Aligns two runs of a function; gives the decision after which they do not meet again, if there is one."""
        first = left.items[0].line if left.items else 0
        return self._items(left.file, first, left.items, right.items)

    def _items(
        self, file: str, line: int, a: Sequence[Item], b: Sequence[Item], *, in_loop: bool = False
    ) -> Decision | None:
        runs: tuple[list[Item], list[Item]] = ([], [])
        decision: Decision | None = None
        header = line if in_loop else None
        left, right = list(a), list(b)
        while left or right:
            x, y = (left[0] if left else None), (right[0] if right else None)
            if x is not None and y is not None and x.line == y.line and type(x) is type(y):
                self._judge(decision, runs)
                runs = ([], [])
                decision = self._pair(file, left.pop(0), right.pop(0))
                line = x.line
                continue
            if decision is None:
                is_exit = line == header and (x is None or y is None)
                decision = Decision(file, line, (_first_step(left), _first_step(right)), is_exit)
            side = 0 if _comes_first(left, right) else 1
            runs[side].append((left, right)[side].pop(0))
        self._judge(decision, runs)
        return decision

    def _pair(self, file: str, x: Item, y: Item) -> Decision | None:
        if isinstance(x, Loop) and isinstance(y, Loop):
            return self._rounds(file, x, y)
        assert isinstance(x, Step), "items of one line are of one kind here"
        assert isinstance(y, Step), "items of one line are of one kind here"
        return self._inner(file, x, y)

    def _rounds(self, file: str, x: Loop, y: Loop) -> Decision | None:
        decision: Decision | None = None
        for left, right in zip(x.rounds, y.rounds, strict=False):
            decision = self._items(file, x.line, left, right, in_loop=True)
        common = min(len(x.rounds), len(y.rounds))
        rest = [[item for steps in loop.rounds[common:] for item in steps] for loop in (x, y)]
        if rest[0] or rest[1]:
            decision = decision or Decision(file, x.line, (_first_step(rest[0]), _first_step(rest[1])), is_loop=True)
            self._judge(decision, (rest[0], rest[1]))
        return decision

    def _inner(self, file: str, x: Step, y: Step) -> Decision | None:
        """Aligns the functions with compared calls, and the calls, that ran inside one statement, by their order."""
        sides = (x.inner, y.inner)
        keys = [[self._key(side, one) for one in sides[side]] for side in (0, 1)]
        at = [0, 0]
        last = [0, 0]
        decision: Decision | None = None
        while (i := _next(keys[0], at[0])) is not None and (j := _next(keys[1], at[1])) is not None:
            one, other = sides[0][i], sides[1][j]
            if keys[0][i] != keys[1][j]:
                # One function of the two is met again on the other side, or calls differ from here on.
                ahead = [keys[0][i] in keys[1][j : j + MAX_AHEAD], keys[1][j] in keys[0][i : i + MAX_AHEAD]]
                if isinstance(one, int) or isinstance(other, int) or ahead[0] == ahead[1]:
                    break
                at = [i, j + 1] if ahead[0] else [i + 1, j]
                continue
            runs = (sides[0][last[0] : i], sides[1][last[1] : j])
            self._judge(decision or Decision(file, x.line), runs)
            decision = None
            if isinstance(one, Frame) and isinstance(other, Frame):
                decision = self.frames(one, other)
            else:
                self._counts = [count + 1 for count in self._counts]
            at = last = [i + 1, j + 1]
        # What ran behind the last common call, also what makes no call itself: a callback may have decided.
        rest = [(*_after_calls(sides[side][: last[side]]), *sides[side][last[side] :]) for side in (0, 1)]
        if any(key is not None for side in (0, 1) for key in keys[side][last[side] :]):
            decision = decision or Decision(file, x.line)
            self._judge(decision, (rest[0], rest[1]))
        return decision

    def _key(self, side: int, one: Frame | int) -> Hashable:
        """What two functions or calls must share to be aligned; None for calls that are not compared."""
        if isinstance(one, int):
            return self._tokens[side](one)
        return (one.file, one.function) if next(calls_in((one,)), None) is not None else None

    def _judge(self, decision: Decision | None, runs: tuple[Sequence[Item | Frame | int], ...]) -> None:
        """Keeps the divergence when the compared calls of the two runs differ; goes on with what it was before."""
        if decision is None:
            return
        calls = [tuple(c for c in calls_in(runs[side]) if self._tokens[side](c) is not None) for side in (0, 1)]
        tokens = [[self._tokens[side](call) for call in calls[side]] for side in (0, 1)]
        before = (self._counts[0], self._counts[1])
        self._counts = [self._counts[side] + len(calls[side]) for side in (0, 1)]
        if tokens[0] == tokens[1] or (not self._is_ordered and Counter(tokens[0]) == Counter(tokens[1])):
            return
        found = Divergence(decision, (tuple(runs[0]), tuple(runs[1])), (calls[0], calls[1]), before)
        if self.found and self.found[-1].decision is decision:
            last = self.found.pop()
            found = replace(
                last,
                runs=(last.runs[0] + found.runs[0], last.runs[1] + found.runs[1]),
                calls=(last.calls[0] + found.calls[0], last.calls[1] + found.calls[1]),
            )
        self.found.append(found)


def _next(keys: Sequence[Hashable], at: int) -> int | None:
    """The next place from `at` on with something to align."""
    return next((n for n in range(at, len(keys)) if keys[n] is not None), None)


def _after_calls(inner: Sequence[Frame | int]) -> tuple[Frame | int, ...]:
    """What functions ran behind the last call of `inner`, also in the middle of one that makes it."""
    place = next((n for n in reversed(range(len(inner))) if next(calls_in((inner[n],)), None) is not None), None)
    if place is None:
        return tuple(inner)
    frame = inner[place]
    if isinstance(frame, int):
        return tuple(inner[place + 1 :])
    steps = list(steps_in(frame.items))
    while steps and next(calls_in((steps[-1],)), None) is None:
        steps.pop()
    last = Step(line=steps[-1].line, inner=_after_calls(steps[-1].inner))
    rest = list(steps_in(frame.items))[len(steps) :]
    return (replace(frame, items=(last, *rest)), *inner[place + 1 :])


def _comes_first(left: Sequence[Item], right: Sequence[Item]) -> bool:
    """Whether the next statement of left is executed before that of right comes: by lines, unless it is met again."""
    if not left or not right:
        return bool(left)
    in_right = any(item.line == left[0].line for item in right)
    in_left = any(item.line == right[0].line for item in left)
    return left[0].line < right[0].line if in_right == in_left else not in_right


def _first_step(items: Sequence[Item]) -> Step | None:
    if not items:
        return None
    first = items[0]
    return first if isinstance(first, Step) else _first_step(first.rounds[0] if first.rounds else ())


def first_unbalanced(found: Sequence[Divergence], last: int) -> Divergence | None:
    """The divergence from which on one side is ahead of the other, up to call number `last` of both; None without one.

    What a later divergence makes up for is no fault: other ranks may wait in a barrier that the first one makes later.
    """
    guilty, ahead = None, 0
    for each in found:
        if min(each.before) > last:
            break
        more = len(each.calls[0]) - len(each.calls[1])
        guilty = guilty or each
        if more == 0 and ahead == 0:
            return guilty
        ahead += more
        if ahead == 0:
            guilty = None
    return guilty


def departing_side(
    found: Divergence, ranks: tuple[int, int], tokens: tuple[Token, Token], programs: tuple[Frame, Frame]
) -> Departing:
    """Which side leaves the order to be expected.

    In this order: (1) and (2) of `leaving_side`; (3) the one that skips a call that each round made before; else (4)
    the one that makes a call of its own.
    """
    clear = leaving_side(found, ranks, tokens)
    if clear is not None:
        return clear
    decision = found.decision
    more = 0 if len(found.calls[0]) > len(found.calls[1]) else 1
    if _is_repeated(found, more, programs, tokens):
        side, what = 1 - more, "does not make the call that earlier rounds made"
    else:
        side, what = more, "makes a call of its own"
    return Departing(side, str(decision), f"the ranks go different ways at {decision}: rank {ranks[side]} {what}")


def _is_repeated(found: Divergence, side: int, programs: tuple[Frame, Frame], tokens: tuple[Token, Token]) -> bool:
    """Whether the statement by which `side` makes its first further call made one before, on either side."""
    own = [item for item in found.runs[side] if isinstance(item, Step | Loop)]
    lines = (step.line for step in steps_in(own) if found.calls[side][0] in calls_in(step.inner))
    place = (found.decision.file, next(lines, found.decision.line))
    for each in (0, 1):
        calls = [call for call in calls_in(programs[each].items) if tokens[each](call) is not None]
        before = set(calls[: found.before[each]])
        if any(not before.isdisjoint(calls_in(step.inner)) for step in _steps_at(programs[each], place)):
            return True
    return False


def _steps_at(frame: Frame, place: tuple[str, int]) -> Iterator[Step]:
    """Yields each execution of the statement at a line of a file."""
    for step in steps_in(frame.items):
        if (frame.file, step.line) == place:
            yield step
        for one in step.inner:
            if isinstance(one, Frame):
                yield from _steps_at(one, place)


def leaving_side(found: Divergence, ranks: tuple[int, int], tokens: tuple[Token, Token]) -> Departing | None:
    """The side that (1) decides as it has not done before, where the other does as before, or (2) leaves a loop in
    which the other goes on; None where neither tells.
    """
    decision = found.decision
    news = [_news(found, side, tokens[side]) for side in (0, 1)]
    own = [[each for each in news[side] if each not in news[1 - side]] for side in (0, 1)]
    if bool(own[0]) != bool(own[1]):
        side = 0 if own[0] else 1
        file, line = own[side][0]
        why = f"rank {ranks[side]} goes another way at {file}:{line} than each time before, rank {ranks[1 - side]} not"
        return Departing(side, f"{file}:{line}", why)
    if decision.is_loop:
        side = 0 if len(found.calls[0]) < len(found.calls[1]) else 1
        why = f"rank {ranks[side]} leaves the loop at {decision} while rank {ranks[1 - side]} begins a further round"
        return Departing(side, str(decision), why)
    return None


def _news(found: Divergence, side: int, token: Token) -> list[tuple[str, int]]:
    """(file, line) of each decision that the side takes for the first time, having decided otherwise before.

    Where the sides have two roles from here on, so that neither is new, those by which a round's calls become others.
    """
    decision = found.decision
    if any(step is not None and step.is_new for step in decision.steps):
        step = decision.steps[side]
        return [(decision.file, decision.line)] if step is not None and step.is_new else []
    if all(step is None for step in decision.steps):
        return list(new_steps(found.runs[side], decision.file))
    return list(_odd_rounds(found.runs[side], decision.file, token))


def decisions_inside(program: Frame, site: str) -> tuple[str, ...]:
    """What functions decided for the first time that ran inside the last statement at `site`, after its last call.

    A package that the statement calls may act on what they decided.
    """
    frame: Frame | int | None = program
    while isinstance(frame, Frame) and frame.items:
        last = list(steps_in(frame.items))[-1]
        if f"{frame.file}:{last.line}" == site:
            return tuple(f"{file}:{line}" for file, line in new_steps(_after_calls(last.inner), frame.file))
        frame = last.inner[-1] if last.inner else None
    return ()


def _odd_rounds(items: Run, file: str, token: Token) -> Iterator[tuple[str, int]]:
    """Yields the new decisions of rounds that make other calls than most rounds of their loop."""
    for item in items:
        match item:
            case Step():
                yield from _odd_rounds(item.inner, file, token)
            case Frame():
                yield from _odd_rounds(item.items, item.file, token)
            case Loop():
                made = [tuple(token(c) for c in calls_in(steps) if token(c) is not None) for steps in item.rounds]
                full = [calls for calls, steps in zip(made, item.rounds, strict=True) if len(steps) > 1]
                usual = Counter(full).most_common(1)[0] if full else ((), 0)
                for calls, steps in zip(made, item.rounds, strict=True):
                    if len(steps) > 1 and calls != usual[0] and 2 * usual[1] > len(full):
                        yield from new_steps(steps, file)
