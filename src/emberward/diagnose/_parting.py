"""Where two stacks of one program part, and what its text says about that: see [Note: text as evidence]."""

import ast
import builtins
from itertools import takewhile

from emberward.diagnose._bindings import bindings_of
from emberward.diagnose._frames import Frame, LineOf
from emberward.diagnose._handlers import swallower_around
from emberward.diagnose._program import (
    are_branches,
    called_name,
    callers_in_common,
    calls_in,
    cause_of_end,
    cause_of_leaving,
    covers,
    deciding,
    is_of_steps,
    path_of,
    place_at,
)
from emberward.diagnose._rank_tests import asks_for_rank, is_for_some, is_of_rank
from emberward.findings import Cause

_OUTPUT = frozenset({"print", "info", "debug", "warning", "log", "format", "round", "item", "len"})
"""What ends at once."""


def kept_away(ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf) -> list[Frame]:
    """The lines at which a rank that is at `ours` may have decided not to come to `theirs`, the last nearest to it.

    On the way there from the function that both are in, or from the outermost that is known.
    """
    here, way = path_of(ours, line_of), path_of(theirs, line_of)
    found: list[Frame] = []
    for name, place in way.items():
        is_common = name in here
        beside, around = (here[name].steps, here[name].loops) if is_common else ((), ())
        # In a loop around both, a turn may lead past theirs on any way of it: theirs may be in an inner loop.
        turn = place.turn_of(around) if set(around) & set(place.loops) else place.turn
        lines = deciding(turn if is_common else place.steps, beside=beside)
        found = [Frame(function=name[1], file=name[0], line=line) for line in lines] + found
        if is_common:
            break
    return found


def kept_by_rank(ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf) -> Frame | None:
    """The line at which the rank decides that one that is at `ours` does not come to `theirs`; None without one."""
    for frame in reversed(kept_away(ours, theirs, line_of)):
        place = place_at(frame, line_of)
        if place is not None and asks_for_rank(place, frame.line or 0):
            return frame
    return None


def swallowed_at(ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf) -> Frame | None:
    """The line of what lets the program go on after an error on the way to `theirs`, and guards nothing of `ours`."""
    here = path_of(ours, line_of)
    for name, place in path_of(theirs, line_of).items():
        # A trainer catches the end of its data, and more, for its own ends.
        is_user = not Frame(function=name[1], file=name[0]).is_library
        line = swallower_around(place) if is_user else None
        if line is not None and (name not in here or swallower_around(here[name]) != line):
            return Frame(function=name[1], file=name[0], line=line)
        if name in here:
            break
    return None


def own_work(before: tuple[Frame, ...], to: tuple[Frame, ...], line_of: LineOf) -> Frame | None:
    """The line of what one rank alone does, beside a line or two of output, on the way from one place to another that
    lies behind it or in the next turn; None where the text shows nothing such.
    """
    was, there = path_of(before, line_of), path_of(to, line_of)
    for name, end in there.items():
        if name not in was:
            continue
        begin = was[name]
        turn = end.turn_of([loop for loop in end.loops if loop in begin.loops])
        ahead = [stmt for step in turn for stmt in step.block[: step.index]]
        if begin.line < end.line:
            ahead = [stmt for stmt in ahead if stmt.lineno > begin.line]
        else:
            ahead += [stmt for step in begin.steps for stmt in step.block[step.index + 1 :]]
        for stmt in ahead:
            if isinstance(stmt, ast.If) and is_of_rank(stmt.test, end.tree):
                calls = [call for each in stmt.body for call in calls_in(each) if called_name(call) not in _OUTPUT]
                if calls:
                    return Frame(function=name[1], file=name[0], line=calls[0].lineno)
        return None
    return None


def passed_at(ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf) -> list[Frame] | None:
    """The lines by which a program may come to `ours` without `theirs` before; None where no text tells."""
    if not path_of(ours, line_of).keys() & path_of(theirs, line_of).keys():
        return None
    guard = swallowed_at(ours, theirs, line_of)
    return [*kept_away(ours, theirs, line_of), *([] if guard is None else [guard])]


def is_dispatched(ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf) -> bool:
    """Whether one call of one line leads to two places, as through a table of functions: a value chooses between them.

    Not where a loop around the line names what is called: it calls one after another.
    """
    above = next((n for n, (a, b) in enumerate(zip(reversed(ours), reversed(theirs), strict=False)) if a != b), 0)
    same = [frame for frame in ours[len(ours) - above :] if not frame.is_library]
    left, right = ([f for f in stack[: len(stack) - above] if not f.is_library] for stack in (ours, theirs))
    place = place_at(same[0], line_of) if same and left and right else None
    if place is None or (left[-1].function, left[-1].file) == (right[-1].function, right[-1].file):
        return False
    names = {stack[-1].function.rpartition(".")[2] for stack in (left, right)}
    # What is imported or built in leads to no function of the program.
    known, built_in = bindings_of(place.tree), vars(builtins)
    calls = [call for call in calls_in(place.tree) if covers(call, place.line)]
    calls = [n for n in calls if known.of(n.func)[0] in "?." or isinstance(n.func, ast.Call | ast.Subscript)]
    calls = [n for n in calls if called_name(n) not in built_in or called_name(n) in names]
    if len(calls) != 1 or called_name(calls[0]) in names:
        return False
    targets = [loop.target for loop in place.loops if not isinstance(loop, ast.While)]
    turns = {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return not turns & {n.id for n in ast.walk(calls[0].func) if isinstance(n, ast.Name)}


def parting(ours: tuple[Frame, ...], theirs: tuple[Frame, ...]) -> tuple[Frame, Frame] | None:
    """The two frames of one function in which two stacks part, from outside in; None when they part otherwise."""
    for left, right in zip(reversed(ours), reversed(theirs), strict=False):
        if left != right:
            return (left, right) if (left.function, left.file) == (right.function, right.file) else None
    return None


def comes_first_by_lines(
    before: tuple[Frame, ...], ours: tuple[Frame, ...], theirs: tuple[Frame, ...]
) -> tuple[bool | None, bool]:
    """Whether a program that was at `before` comes to `ours` before it comes to `theirs`, as far as whole stacks tell.

    A program goes on in the innermost function, there below its line or in a further turn, before it is behind that
    function's call. None where both are reached from one line, and where ours lies below the line of one function and
    theirs above it (second value True): then it is at the end of a turn, or of the loop.
    """
    near, far = (_distance(before, stack) for stack in (ours, theirs))
    if near is None or far is None or near == far:
        return None, False
    is_end = near[0] == far[0] and near[1] < far[1]
    return None if is_end else near < far, is_end


def _distance(before: tuple[Frame, ...], stack: tuple[Frame, ...]) -> tuple[int, bool, int] | None:
    """Functions that are left on the way from one stack to another, whether in a further turn, and the line there."""
    was, now = ([f for f in reversed(each) if not f.is_library] for each in (before, stack))
    common = next((n for n, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)) - 1)
    here, there = (next(iter(each[max(common, 0) :]), None) for each in (was, now))
    if here is None or there is None or (here.function, here.file) != (there.function, there.file):
        return None
    return len(was) - common, (there.line or 0) <= (here.line or 0), there.line or 0


def common_function(ours: tuple[Frame, ...], theirs: tuple[Frame, ...]) -> tuple[Frame, Frame] | None:
    """The outermost function that both stacks are in, at different lines: recorders cut the outer frames off."""
    known = {(frame.function, frame.file): frame for frame in theirs if not frame.is_library}
    for frame in reversed(ours):
        other = known.get((frame.function, frame.file))
        if other is not None and other.line != frame.line:
            return frame, other
    return None


def left_the_loop(
    ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf, *, is_ahead: bool = False
) -> tuple[Frame, Frame, Cause] | None:
    """The frames at which `ours` has left a loop in which `theirs` still is, and why; None when no text says so.

    The loop may be a trainer's: its text is read as the user's is. `is_ahead`: ours is known to be beyond theirs, be it
    in the next turn of a loop around both.
    """
    parted = parting(ours, theirs) or common_function(ours, theirs) or callers_in_common(ours, theirs, line_of)
    if parted is None:
        return None
    now, inside = parted
    here, there = place_at(now, line_of), place_at(inside, line_of)
    if here is None or there is None or now.is_platform or is_for_some(there, here):
        return None
    cause = cause_of_leaving(there, here)
    if cause is not None:
        return now, inside, cause
    if now.is_library or (here.line <= there.line and not is_ahead) or are_branches(there, here):
        return None
    # What lies in one loop with both lines is done in each of its turns.
    deeper = _loop_below(theirs, inside, line_of, in_step=bool(set(there.loops) & set(here.loops)))
    return None if deeper is None else (now, *deeper)


def _loop_below(
    stack: tuple[Frame, ...], inside: Frame, line_of: LineOf, *, in_step: bool
) -> tuple[Frame, Cause] | None:
    """The outermost place below `inside` that stands in a loop of its function, and why ours has returned from it.

    `in_step`: only a loop of whole steps counts, one that trains or calls a function that does. A loop in whose body
    the stack ends, over handles or parameters, may be a part of the step.
    """
    known = path_of(tuple(frame for frame in stack if not frame.is_library), line_of)
    end = inside.file, inside.function.rpartition(".")[2]
    below = list(takewhile(lambda item: item[0] != end, known.items()))
    for n, ((file, function), at) in reversed(list(enumerate(below))):
        steps = [loop for loop in at.loops if not in_step or n > 0 or is_of_steps(loop, at.tree)]
        if at.home is not None and steps:
            return Frame(function=function, file=file, line=at.line), cause_of_end(steps[-1])
    return None
