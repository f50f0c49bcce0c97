"""What a program's text says about two lines of it: has one rank left the loop in which the others still are?

[Note: text as evidence]
A stack tells where a rank is; the text tells what that place means. It is read through the judge's `LineOf`, which may
have nothing, or a text that changed since: so it only chooses between causes of a fault that is already certain, and
never makes one.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from emberward.diagnose._bindings import bindings_of
from emberward.diagnose._frames import Frame, LineOf
from emberward.findings import Cause

MAX_LINES = 20_000
"""Longest program text that is parsed."""

_LOOPS = (ast.For, ast.While, ast.AsyncFor)
Loop = ast.For | ast.While | ast.AsyncFor


@lru_cache(maxsize=256)
def text_of(file: str, line_of: LineOf) -> str | None:
    """The whole text of a file, as far as `line_of` gives it; None when there is none."""
    frame = Frame(function="", file=file, line=1)
    lines = []
    for number in range(1, MAX_LINES + 1):
        line = line_of(replace(frame, line=number))
        if line is None:
            break
        lines.append(line)
    return "\n".join(lines) if lines else None


@lru_cache(maxsize=64)
def tree_of(text: str) -> ast.Module | None:
    """The syntax tree of a program; None for a text that is none."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def covers(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def body_covers(body: list[ast.stmt], line: int) -> bool:
    return bool(body) and body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)


def loops_around(tree: ast.Module, line: int) -> Iterator[Loop]:
    for node in ast.walk(tree):
        if isinstance(node, _LOOPS) and body_covers(node.body, line):
            yield node


def cause_of_leaving(text: str, *, inside: int, now: int) -> Cause | None:
    """Why line `now` lies behind, and not in, a loop around line `inside` of the same function; None where it does not.

    UNEVEN_DATA: the loop came to its end, which its data tell. SKIPPED_COLLECTIVE: every rank has as many turns, so
    that this one broke off, or left calls out in some of them.
    """
    tree = tree_of(text)
    if tree is None:
        return None
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]

    def home(line: int) -> ast.AST:
        around = [f for f in functions if covers(f, line)]
        return max(around, key=lambda f: f.lineno, default=tree)

    if home(inside) is not home(now):
        return None
    loops = sorted(loops_around(tree, inside), key=lambda loop: loop.lineno)
    # Of inner loops only those of whole steps, as in an epoch: one over parameters is a part of the step.
    counted = [loop for n, loop in enumerate(loops) if n == 0 or makes_steps(loop)]
    if not any(now > (loop.end_lineno or loop.lineno) for loop in counted):
        return None
    causes = {cause_of_end(loop) for loop in counted if now > (loop.end_lineno or loop.lineno)}
    return Cause.UNEVEN_DATA if Cause.UNEVEN_DATA in causes else Cause.SKIPPED_COLLECTIVE


def cause_of_end(loop: ast.stmt) -> Cause:
    """Why one rank left the loop before others: its data, unless it counts the same turns on every rank.

    A count is the same when it is written down, or when the loop can be broken off: then that is what differs.
    """
    calls = [n for n in ast.walk(loop.iter) if isinstance(n, ast.Call)] if isinstance(loop, ast.For) else []
    count = next((call for call in calls if called_name(call) == "range"), None)
    if isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and not _takes_data(loop):
        return Cause.SKIPPED_COLLECTIVE
    if count is None:
        return Cause.UNEVEN_DATA
    is_same = all(isinstance(arg, ast.Constant) for arg in count.args) or _breaks_off(loop)
    return Cause.SKIPPED_COLLECTIVE if is_same else Cause.UNEVEN_DATA


def _takes_data(loop: ast.While) -> bool:
    """Whether a loop without an end of its own asks an iterator for its turns."""
    return any(isinstance(n, ast.Call) and called_name(n) == "next" for n in ast.walk(loop))


def _breaks_off(node: ast.AST) -> bool:
    """Whether a loop has a ``break`` of its own."""
    inner = (
        each for each in ast.iter_child_nodes(node) if not isinstance(each, (*_LOOPS, ast.FunctionDef, ast.Lambda))
    )
    return any(isinstance(each, ast.Break) or _breaks_off(each) for each in inner)


def makes_steps(loop: ast.stmt) -> bool:
    """Whether a loop's body trains: it calls ``backward`` or ``step`` of something."""
    called = (node.func for node in ast.walk(loop) if isinstance(node, ast.Call))
    return any(isinstance(func, ast.Attribute) and func.attr in ("backward", "step") for func in called)


def _gives_up(handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends the block by raising or leaving the program."""
    for node in ast.walk(handler):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Call) and called_name(node) in ("exit", "_exit", "abort", "kill"):
            return True
    return False


def called_name(call: ast.Call) -> str:
    """The name of what is called, without that of what it belongs to; empty for what has none."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def function_around(tree: ast.Module, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function in which a line lies; None for a line of the module."""
    around = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and covers(n, line))
    return max(around, key=lambda f: f.lineno, default=None)


def swallowing_handler(text: str, line: int) -> int | None:
    """The line of an ``except`` that goes on after an error at `line`; None when no such handler guards it."""
    tree = tree_of(text)
    if tree is None:
        return None
    guards = [n for n in ast.walk(tree) if isinstance(n, ast.Try) and body_covers(n.body, line)]
    guards.sort(key=lambda guard: -guard.lineno)
    for guard in guards:
        for handler in guard.handlers:
            if not _gives_up(handler):
                return handler.lineno
    return None


def is_entered(text: str, *, entry: int, inside: int) -> bool:
    """Whether line `entry` enters a ``with`` in whose block line `inside` stands."""
    tree = tree_of(text)
    return tree is not None and _exit_of(tree, entry, inside=inside) != entry


def _exit_of(tree: ast.Module, entry: int, *, inside: int) -> int:
    """The line behind the ``with`` that `entry` enters, if `inside` stands in its block: left there; else `entry`."""
    withs = (node for node in ast.walk(tree) if isinstance(node, ast.With | ast.AsyncWith))
    around = (n for n in withs if n.lineno <= entry < n.body[0].lineno and body_covers(n.body, inside))
    return next(((node.end_lineno or entry) + 1 for node in around), entry)


def are_branches(text: str, left: int, right: int) -> bool:
    """Whether two lines lie in different branches of one ``if`` or ``match``: a round makes one of them alone.

    What stands behind an ``if`` whose block ends with ``return``, ``raise``, ``continue`` or ``break`` is its ``else``.
    """
    tree = tree_of(text)
    if tree is None:
        return False
    for bodies in _choices(tree):
        at = [
            {n for n, body in enumerate(bodies) if any(covers(each, line) for each in body)} for line in (left, right)
        ]
        if at[0] and at[1] and not at[0] & at[1]:
            return True
    return False


def _choices(tree: ast.Module) -> Iterator[list[list[ast.stmt]]]:
    """The branches of each choice of a program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            yield [case.body for case in node.cases]
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):  # a lambda's body is an expression
                yield from (_two_ways(each, block[n + 1 :]) for n, each in enumerate(block) if isinstance(each, ast.If))


def _two_ways(choice: ast.If, rest: list[ast.stmt]) -> list[list[ast.stmt]]:
    """What is run when the condition holds, and when not; `rest` stands behind, and is of both or of neither."""
    return [
        [*choice.body, *(rest if _leaves(choice.orelse) else ())],
        [*choice.orelse, *(rest if _leaves(choice.body) else ())],
    ]


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether nothing that stands behind a block is run after it."""
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def line_of_call(text: str, *, called: str, beside: int) -> int | None:
    """The line at which the function around line `beside` calls the function `called`; None when it does not."""
    tree = tree_of(text)
    if tree is None:
        return None
    calls = [n for n in ast.walk(function_around(tree, beside) or tree) if isinstance(n, ast.Call)]
    return min((n.lineno for n in calls if called_name(n) == called and n.lineno != beside), default=None)


def callers_in_common(
    ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf
) -> tuple[Frame, Frame] | None:
    """The lines of one function from which two places of a file are reached; for recorders that keep one frame.

    By the text: as long as each function is called at one line alone. None when no function has both, or at one line.
    """
    left, right = (next((f for f in stack if not f.is_library), None) for stack in (ours, theirs))
    if left is None or right is None or left.file != right.file:
        return None
    text = text_of(left.file, line_of)
    tree = None if text is None else tree_of(text)
    if tree is None:
        return None
    here, there = _callers(tree, left), _callers(tree, right)
    name = next((each for each in here if each in there), None)
    if name is None or here[name] == there[name]:
        return None
    return replace(left, function=name, line=here[name]), replace(left, function=name, line=there[name])


def _callers(tree: ast.Module, frame: Frame) -> dict[str, int]:
    """The function of a frame and those that call it, from within outwards, each with the line at which it is."""
    lines, found = {frame.line or 0}, dict[str, int]()
    while len(lines) == 1:
        (line,) = lines
        around = function_around(tree, line)
        name = "<module>" if around is None else around.name
        if name in found:
            break
        found[name] = line
        lines = set() if around is None else _lines_of_calls(tree, around)
    return found


def _lines_of_calls(tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    """The lines at which a function may be called. Of a method those on an object of its class, where some are known.

    A module calls its ``forward`` when it is called itself, and a function of autograd by ``apply``.
    """
    names, name = bindings_of(tree), function.name
    calls = [(n.lineno, n, names.of(n.func)) for n in ast.walk(tree) if isinstance(n, ast.Call)]
    home = next((n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and function in n.body), None)
    if home is not None:
        forms = {f"{home}().{name}", f"{home}.{name}"}
        forms |= {f"{home}()", f"{home}.apply"} if name in ("__call__", "forward") else set()
        forms |= {home} if name == "__init__" else set()
        known = {line for line, _, form in calls if form in forms}
        if known:
            return known
    return {line for line, call, form in calls if called_name(call) == name and form[0] in ("?", name[0])}


def comes_first(
    before: tuple[Frame, ...], ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf
) -> bool | None:
    """Whether a program that was at `before` comes to `ours` before it comes to `theirs`, by its text. None: unclear.

    All three are stacks, or what is known of them. From `before` a program goes on in the innermost function first: to
    lines below it, or to the next turn of a loop around it; then in the function that called that one.
    """
    paths = [_path(stack, line_of) for stack in (before, ours, theirs)]
    found = [_distance(paths[0], path, line_of) for path in paths[1:]]
    for function in paths[1].keys() & paths[2].keys():
        text = text_of(function[0], line_of)
        if text is not None and are_branches(text, paths[1][function], paths[2][function]):
            return None
    if found[0] is None or found[1] is None or found[0] == found[1]:
        return None
    if found[1] < found[0] and found[1][2]:
        # A loop over parameters or handles may have had all its turns: then ours came before the next turn around it.
        inner, outer = _loop_at(paths[0], found[1], line_of), _loop_at(paths[0], found[0], line_of)
        if inner is not None and outer is not None and not makes_steps(inner):
            return None
    return found[0] < found[1]


_Path = Mapping[tuple[str, str], int]
_Distance = tuple[int, int, bool, int]
"""Functions outwards, loops outwards, whether in the next turn of that loop, and the line."""


def _loop_at(before: _Path, at: _Distance, line_of: LineOf) -> Loop | None:
    """The loop around `before` in a turn of which a place lies, by its distance; None outside of all."""
    function, after = list(before.items())[at[0]]
    loops = _loops_from_within(tree_of(text_of(function[0], line_of) or ""), after)
    return loops[at[1]] if at[1] < len(loops) else None


def _loops_from_within(tree: ast.Module | None, line: int) -> list[Loop]:
    """The loops around a line in its function, the innermost first."""
    home = None if tree is None else function_around(tree, line)
    loops = [] if tree is None else [x for x in loops_around(tree, line) if home is None or covers(home, x.lineno)]
    return sorted(loops, key=lambda loop: -loop.lineno)


def _distance(before: _Path, path: _Path, line_of: LineOf) -> _Distance | None:
    """How far a program that was at `before` is from `path`, for comparisons; None when it does not come there."""
    for depth, (function, after) in enumerate(before.items()):
        text = text_of(function[0], line_of)
        tree = None if text is None else tree_of(text)
        if function not in path or tree is None:
            continue
        line, loops = _exit_of(tree, path[function], inside=after), _loops_from_within(tree, after)
        level = next((n for n, loop in enumerate(loops) if body_covers(loop.body, line)), None)
        if level is not None or line > after:
            return depth, len(loops) if level is None else level, line <= after, line
    return None


def _path(stack: tuple[Frame, ...], line_of: LineOf) -> dict[tuple[str, str], int]:
    """The line of a stack in each function, from within; where frames were cut off, as far as the text tells."""
    found: dict[tuple[str, str], int] = {}
    users = [frame for frame in stack if not frame.is_platform and frame.line is not None]
    for frame in users:
        found.setdefault((frame.file, frame.function.rpartition(".")[2]), frame.line or 0)
    text = text_of(users[-1].file, line_of) if users else None
    tree = None if text is None else tree_of(text)
    for name, line in () if tree is None else _callers(tree, users[-1]).items():
        found.setdefault((users[-1].file, name), line)
    return found


def calls_around(text: str, line: int) -> tuple[int, ...]:
    """The line, then the line at which its function is called, and so outwards, while there is one such line alone."""
    tree = tree_of(text)
    return () if tree is None else tuple(_callers(tree, Frame(function="", file="", line=line)).values())


def handler_around(text: str, line: int) -> int | None:
    """The line of the ``except`` in whose block `line` lies; None outside of every handler."""
    tree = tree_of(text)
    if tree is None:
        return None
    found = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler) and body_covers(n.body, line)]
    return max(found, default=None)


def is_guarded(left: Frame, right: Frame, line_of: LineOf) -> bool:
    """Whether the earlier of two lines of a file stands under a condition under which the later one does not."""
    if left.line is None or right.line is None or left.file != right.file:
        return False
    text = text_of(left.file, line_of)
    tree = None if text is None else tree_of(text)
    first, last = sorted((left.line, right.line))
    choices = [] if tree is None else [n for n in ast.walk(tree) if isinstance(n, ast.If)]
    return any(body_covers(n.body, first) and not covers(n, last) for n in choices)


def deciding(body: Sequence[ast.stmt], line: int) -> list[int]:
    """The lines of the conditions that decide whether a block comes to a line of it: around it, or that leave before.

    How many turns a loop around the line has is none of them.
    """
    found: list[int] = []
    for stmt in body:
        if covers(stmt, line):
            if isinstance(stmt, ast.If | ast.Match):
                found.append(stmt.lineno)
            blocks = [getattr(stmt, name, []) for name in ("body", "orelse", "finalbody")]
            blocks += [each.body for each in (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ()))]
            return found + [n for block in blocks if isinstance(block, list) for n in deciding(block, line)]
        found += [n.lineno for n in ast.walk(stmt) if isinstance(n, ast.If) and _may_leave([*n.body, *n.orelse])]
    return found


def _may_leave(body: Sequence[ast.AST]) -> bool:
    """Whether a block may end the turn or the function that it is in."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
    return any(
        isinstance(each, ast.Return | ast.Raise | ast.Continue | ast.Break)
        or (not isinstance(each, inner) and _may_leave(list(ast.iter_child_nodes(each))))
        for each in body
    )


def is_in_every_turn(frame: Frame | None, line_of: LineOf) -> bool:
    """Whether each turn of the loop around a line comes to it, by the text: what differs is what the loop is over."""
    text = None if frame is None else text_of(frame.file, line_of)
    tree = None if text is None else tree_of(text)
    if tree is None or frame is None or frame.line is None:
        return False
    first = getattr(function_around(tree, frame.line), "lineno", 0)
    loops = [loop for loop in loops_around(tree, frame.line) if loop.lineno >= first]
    inner = max(loops, key=lambda loop: loop.lineno, default=None)
    return inner is not None and not deciding(inner.body, frame.line)
