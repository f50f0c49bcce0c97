"""Where two stacks of one program part, and what its text says about that: see [Note: text as evidence]."""

import ast
import builtins
from dataclasses import replace

from emberward.diagnose._bindings import bindings_of
from emberward.diagnose._frames import Frame, LineOf
from emberward.diagnose._program import (
    are_branches,
    body_covers,
    called_name,
    cause_of_end,
    cause_of_leaving,
    covers,
    deciding,
    function_around,
    loops_around,
    makes_steps,
    text_of,
    tree_of,
)
from emberward.findings import Cause


def turned_off(ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf) -> Frame | None:
    """The condition by which `ours` returned from a function on the way to where `theirs` is; None when several may.

    Also None where a condition of the function that both are in may have kept it from the way: it is at hand there.
    """
    parted = parting(ours, theirs) or common_function(ours, theirs)
    if parted is None or None in (parted[0].line, parted[1].line) or parted[1].line >= parted[0].line:  # type: ignore[operator]
        return None
    found: list[Frame] = []
    for frame in reversed(theirs[: theirs.index(parted[1]) + 1]):
        text = None if frame.is_library else text_of(frame.file, line_of)
        tree = None if text is None else tree_of(text)
        home = None if tree is None or frame.line is None else function_around(tree, frame.line)
        if tree is not None and home is not None and frame.line is not None:
            loops = [loop for loop in loops_around(tree, frame.line) if loop.lineno > home.lineno]
            block = max(loops, key=lambda loop: loop.lineno, default=home).body if frame is parted[1] else home.body
            found += [replace(frame, line=line) for line in deciding(block, frame.line)]
    return found[0] if len(found) == 1 and found[0].function != parted[1].function else None


def is_dispatched(ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf) -> bool:
    """Whether one call of one line leads to two places, as through a table of functions: a value chooses between them.

    Not where a loop around the line names what is called: it calls one after another.
    """
    above = next((n for n, (a, b) in enumerate(zip(reversed(ours), reversed(theirs), strict=False)) if a != b), 0)
    same = [frame for frame in ours[len(ours) - above :] if not frame.is_library]
    left, right = ([f for f in stack[: len(stack) - above] if not f.is_library] for stack in (ours, theirs))
    text = text_of(same[0].file, line_of) if same and left and right else None
    tree = None if text is None else tree_of(text)
    if (
        tree is None
        or same[0].line is None
        or (left[-1].function, left[-1].file) == (right[-1].function, right[-1].file)
    ):
        return False
    names = {stack[-1].function.rpartition(".")[2] for stack in (left, right)}
    # What is imported or built in leads to no function of the program.
    known, built_in = bindings_of(tree), vars(builtins)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and covers(n, same[0].line)]
    calls = [n for n in calls if known.of(n.func)[0] in "?." or isinstance(n.func, ast.Call | ast.Subscript)]
    calls = [n for n in calls if called_name(n) not in built_in or called_name(n) in names]
    if len(calls) != 1 or called_name(calls[0]) in names:
        return False
    loops = [loop for loop in loops_around(tree, same[0].line) if isinstance(loop, ast.For)]
    turns = {n.id for loop in loops for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    return not turns & {n.id for n in ast.walk(calls[0].func) if isinstance(n, ast.Name)}


def parting(ours: tuple[Frame, ...], theirs: tuple[Frame, ...]) -> tuple[Frame, Frame] | None:
    """The two frames of one function in which two stacks part, from outside in; None when they part otherwise."""
    for left, right in zip(reversed(ours), reversed(theirs), strict=False):
        if left != right:
            return (left, right) if (left.function, left.file) == (right.function, right.file) else None
    return None


def common_function(ours: tuple[Frame, ...], theirs: tuple[Frame, ...]) -> tuple[Frame, Frame] | None:
    """The outermost function that both stacks are in, at different lines: recorders cut the outer frames off."""
    known = {(frame.function, frame.file): frame for frame in theirs if not frame.is_library}
    for frame in reversed(ours):
        other = known.get((frame.function, frame.file))
        if other is not None and other.line != frame.line:
            return frame, other
    return None


def left_the_loop(
    ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf
) -> tuple[Frame, Frame, Cause] | None:
    """The frames at which `ours` has left a loop in which `theirs` still is, and why; None when no text says so.

    The loop may be a trainer's: its text is read as the user's is.
    """
    parted = parting(ours, theirs) or common_function(ours, theirs)
    if parted is None:
        return None
    now, inside = parted
    if now.line is None or inside.line is None or now.is_platform:
        return None
    text = text_of(now.file, line_of)
    if text is None:
        return None
    cause = cause_of_leaving(text, inside=inside.line, now=now.line)
    if cause is not None:
        return now, inside, cause
    if now.is_library:
        return None
    is_step = _share_a_loop(text, inside.line, now.line)
    deeper = _loop_below(theirs, inside, line_of, in_step=is_step) if now.line > inside.line else None
    if deeper is None or are_branches(text, inside.line, now.line):
        return None
    return now, *deeper


def _share_a_loop(text: str, left: int, right: int) -> bool:
    """Whether one loop is around both lines: what lies between them is then done in each of its turns."""
    tree = tree_of(text)
    return tree is not None and any(body_covers(loop.body, right) for loop in loops_around(tree, left))


def _loop_below(
    frames: tuple[Frame, ...], inside: Frame, line_of: LineOf, *, in_step: bool
) -> tuple[Frame, Cause] | None:
    """The outermost frame below `inside` that stands in a loop of its function, and why ours has returned from it.

    `in_step`: only a loop of whole steps counts, one that trains or calls a function that does. A loop in whose body
    the stack ends, over handles or parameters, may be a part of the step.
    """
    place = frames.index(inside)
    users = [frame for frame in frames[:place] if not frame.is_library]
    for frame in reversed(frames[:place]):
        if frame.is_library or frame.line is None:
            continue
        text = text_of(frame.file, line_of)
        tree = None if text is None else tree_of(text)
        if tree is None:
            continue
        home = function_around(tree, frame.line)
        loops = [] if home is None else [x for x in loops_around(tree, frame.line) if covers(home, x.lineno)]
        found = [loop for loop in loops if not in_step or frame is not users[0] or makes_steps(loop)]
        if found:
            return frame, cause_of_end(min(found, key=lambda loop: loop.lineno))
    return None
