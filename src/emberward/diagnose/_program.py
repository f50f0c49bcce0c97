"""What a program's text says about a line of it: its way through the blocks of its function, and how it goes on.

[Note: text as evidence]
A stack tells where a rank is; the text tells what that place means. It is read through the judge's `LineOf`, which may
have nothing, or a text that changed since: so it only chooses between causes of a fault that is already certain, and
never makes one.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from emberward.diagnose._bindings import bindings_of
from emberward.diagnose._frames import Frame, LineOf, user_frame
from emberward.findings import Cause

MAX_LINES = 20_000
"""Longest program text that is parsed."""

Loop = ast.For | ast.While | ast.AsyncFor
Function = ast.FunctionDef | ast.AsyncFunctionDef


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


@dataclass(frozen=True, slots=True)
class Step:
    """A statement that holds a line: number `index` of a block, which is the field `part` of `owner`."""

    owner: ast.AST
    part: str
    block: Sequence[ast.stmt]
    index: int

    @property
    def stmt(self) -> ast.stmt:
        return self.block[self.index]

    @property
    def is_turn(self) -> bool:
        """Whether the block is the body of a loop."""
        return isinstance(self.owner, Loop) and self.part == "body"

    @property
    def is_choice(self) -> bool:
        """Whether the block is a branch of an ``if`` or ``match``."""
        return isinstance(self.owner, ast.If | ast.match_case)


@dataclass(frozen=True, slots=True)
class ProgramLine:
    """A line of a program and the statements that hold it, from those of its function inwards.

    `home`: its innermost function; None for a line of the module or of a class.
    """

    text: str
    tree: ast.Module
    line: int
    home: Function | None
    steps: tuple[Step, ...]

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops in whose body the line stands, the innermost first."""
        return tuple(s.owner for s in reversed(self.steps) if s.is_turn)  # type: ignore[misc]

    @property
    def turn(self) -> tuple[Step, ...]:
        """The steps within one turn of the innermost loop; all where there is none."""
        return self.turn_of(self.loops)

    def turn_of(self, loops: Sequence[Loop]) -> tuple[Step, ...]:
        """The steps within one turn of the innermost of some loops around it; all where it is in none of them."""
        return self.steps[
            max((n for n, step in enumerate(self.steps) if step.is_turn and step.owner in loops), default=0) :
        ]


@lru_cache(maxsize=1024)
def place_in(text: str, line: int) -> ProgramLine | None:
    """The place of a line in a text; None for a text that is no program."""
    tree = tree_of(text)
    return None if tree is None else line_in(tree, text, line)


def line_in(tree: ast.Module, text: str, line: int) -> ProgramLine:
    home: Function | None = None
    steps: list[Step] = []
    found = _step(tree, line)
    while found is not None:
        home, steps = (found.stmt, []) if isinstance(found.stmt, Function) else (home, [*steps, found])
        found = _step(found.stmt, line)
    return ProgramLine(text, tree, line, home, tuple(steps))


def place_at(frame: Frame | None, line_of: LineOf) -> ProgramLine | None:
    """The place at which a frame is; None where no text is at hand."""
    text = None if frame is None or frame.line is None else text_of(frame.file, line_of)
    return None if text is None or frame is None or frame.line is None else place_in(text, frame.line)


def _step(node: ast.AST, line: int) -> Step | None:
    for owner, part, block in _blocks(node):
        for n, stmt in enumerate(block):
            if covers(stmt, line):
                return Step(owner, part, block, n)
    return None


def _blocks(node: ast.AST) -> Iterator[tuple[ast.AST, str, list[ast.stmt]]]:
    for name, value in ast.iter_fields(node):
        first = value[0] if isinstance(value, list) and value else None
        if isinstance(first, ast.stmt):
            yield node, name, value
        elif isinstance(first, ast.ExceptHandler | ast.match_case):
            for each in value:
                yield from _blocks(each)


def covers(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def calls_in(node: ast.AST) -> list[ast.Call]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Call)]


def called_name(call: ast.Call) -> str:
    """The name of what is called, without that of what it belongs to; empty for what has none."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _exits(nodes: Iterable[ast.AST], *, in_loop: bool = False) -> Iterator[ast.AST]:
    """The statements by which a block ends the turn, the loop or the function that it is in."""
    for each in nodes:
        if isinstance(each, ast.Return | ast.Raise) or (isinstance(each, ast.Continue | ast.Break) and not in_loop):
            yield each
        elif not isinstance(each, Function | ast.Lambda | ast.ClassDef):
            yield from _exits(ast.iter_child_nodes(each), in_loop=in_loop or isinstance(each, Loop))


def led_past(place: ProgramLine) -> list[int]:
    """The lines of each ``break`` out of a loop around the place, and of each ``continue`` before it."""
    exits = [each for loop in place.loops for each in _exits(loop.body)]
    past = [each for each in exits if isinstance(each, ast.Continue) and each.lineno < place.line]
    return sorted({each.lineno for each in exits if isinstance(each, ast.Break)} | {each.lineno for each in past})


def cause_of_leaving(inside: ProgramLine, now: ProgramLine) -> Cause | None:
    """Why `now` lies behind, and not in, a loop around `inside` of the same function; None where it does not.

    UNEVEN_DATA: the loop came to its end, which its data tell. SKIPPED_COLLECTIVE: every rank has as many turns, so
    that this one broke off, or left calls out in some of them.
    """
    if inside.home is not now.home:
        return None
    # Of inner loops only those of whole steps, as in an epoch: one over parameters is a part of the step.
    counted = [loop for loop in inside.loops if loop is inside.loops[-1] or is_of_steps(loop, inside.tree)]
    left = [loop for loop in counted if now.line > (loop.end_lineno or loop.lineno)]
    if len(left) > 1 and _breaks_off(left[-1]):
        # Data that end sooner lead to the next turn of the loop around them: only its last one leads here.
        return Cause.SKIPPED_COLLECTIVE
    causes = {cause_of_end(loop) for loop in left}
    return Cause.UNEVEN_DATA if Cause.UNEVEN_DATA in causes else next(iter(causes), None)


def _breaks_off(loop: Loop) -> bool:
    """Whether each rank decides by itself to break off a loop: not by counts, which are the same on all."""
    breaks = {id(node) for node in _exits(loop.body) if isinstance(node, ast.Break)}
    ifs = [node for stmt in loop.body for node in ast.walk(stmt) if isinstance(node, ast.If)]
    turns = _counted_by(loop) if isinstance(loop, ast.For) else set()
    return any(any(id(each) in breaks for each in ast.walk(node)) and not _is_counted(node.test, turns) for node in ifs)


def cause_of_end(loop: Loop) -> Cause:
    """Why one rank left the loop before others: its data, unless it counts the same turns on every rank.

    A count is the same when it is written down, or when the loop can be broken off: then that is what differs. So is
    that of layers, which the loop calls. A loop without an end of its own may ask an iterator for its turns.
    """
    if isinstance(loop, ast.While):
        if "next" in map(called_name, calls_in(loop)):
            return Cause.UNEVEN_DATA
        has_end = not isinstance(loop.test, ast.Constant) and not _breaks_off(loop)
        return Cause.UNEVEN_DATA if has_end else Cause.SKIPPED_COLLECTIVE
    count = next((call for call in calls_in(loop.iter) if called_name(call) == "range"), None)
    is_written = count is not None and all(isinstance(arg, ast.Constant) for arg in count.args)
    breaks_off = any(isinstance(each, ast.Break) for each in _exits(loop.body))
    turns = {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
    is_called = any(isinstance(n.func, ast.Name) and n.func.id in turns for stmt in loop.body for n in calls_in(stmt))
    is_same = is_written or is_called or (count is not None and breaks_off)
    return Cause.SKIPPED_COLLECTIVE if is_same else Cause.UNEVEN_DATA


def makes_steps(loop: Loop) -> bool:
    """Whether a loop's body trains: it calls ``backward`` or ``step`` of something."""
    called = (call.func for call in calls_in(loop))
    return any(isinstance(func, ast.Attribute) and func.attr in ("backward", "step") for func in called)


def is_of_steps(loop: Loop, tree: ast.Module) -> bool:
    """Whether a loop is of whole steps, and none that is a part of one: over parameters, or with torch's calls on what
    it is over, as on handles.
    """
    if makes_steps(loop) or isinstance(loop, ast.While):
        return True
    turns = {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
    names = bindings_of(tree)
    if any(f".{name}" in names.of(loop.iter) for name in ("parameters", "named_parameters", "buffers", "modules")):
        return False
    calls = [call for stmt in loop.body for call in calls_in(stmt)]
    given = [arg for call in calls if names.of(call.func).startswith("torch.distributed.") for arg in call.args]
    waited = [call.func for call in calls if called_name(call) == "wait"]
    return not any(_root(part) in turns for part in (*given, *waited))


def _root(node: ast.expr) -> str | None:
    """The name with which an expression of attributes and elements begins; None for any other."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def is_entered(entry: ProgramLine, inside: ProgramLine) -> bool:
    """Whether `entry` enters a ``with`` in whose block `inside` stands."""
    return _exit_of(entry, inside) != entry.line


def _exit_of(entry: ProgramLine, inside: ProgramLine) -> int:
    """The line behind the ``with`` that `entry` enters, if `inside` stands in its block: left there; else its line."""
    for step in inside.steps:
        is_with = isinstance(step.owner, ast.With | ast.AsyncWith)
        if is_with and step.owner.lineno <= entry.line < step.block[0].lineno:  # type: ignore[attr-defined]
            return (step.owner.end_lineno or entry.line) + 1  # type: ignore[attr-defined]
    return entry.line


def are_branches(left: ProgramLine | None, right: ProgramLine | None) -> bool:
    """Whether two places lie in different branches of one ``if`` or ``match``: a round makes one of them alone.

    What stands behind a branch that ends with ``return``, ``raise``, ``continue`` or ``break`` is another branch.
    """
    if left is None or right is None or left.home is not right.home:
        return False
    depth = next((n for n, (a, b) in enumerate(zip(left.steps, right.steps, strict=False)) if a != b), None)
    if depth is None:
        return False
    ours, theirs = left.steps[depth], right.steps[depth]
    if ours.block is not theirs.block:
        return ours.is_choice
    first = left if ours.index < theirs.index else right
    exits = list(_exits([first.steps[depth].stmt]))
    return any(step.is_choice and step.block[-1] in exits for step in first.steps[depth + 1 :])


def is_guarded(left: ProgramLine | None, right: ProgramLine | None) -> bool:
    """Whether the earlier of two places of a file stands under a condition under which the later one does not."""
    if left is None or right is None:
        return False
    first, last = sorted((left, right), key=lambda place: place.line)
    ifs = [s.owner for s in first.steps if isinstance(s.owner, ast.If) and s.part == "body"]
    return any(not covers(each, last.line) for each in ifs)


def deciding(steps: Sequence[Step], *, beside: Sequence[Step] = ()) -> list[int]:
    """The lines at which a rank decides whether a block comes to a line of it, the last one nearest to it.

    The head of a choice around the line, or of one that leaves the block before it. What each rank decides alike is
    none, nor how many turns a loop around the line has, nor a choice around the line with the steps `beside`.
    """
    found: list[int] = []
    shared = [step.block for step in beside]
    for n, step in enumerate(steps):
        if step.is_choice and step.block not in shared and not is_same_everywhere(step.owner, steps):
            found.append(step.owner.lineno if isinstance(step.owner, ast.If) else steps[n - 1].stmt.lineno)
        for stmt in step.block[: step.index]:
            found += _leaving(stmt, steps)
    return found


def _leaving(stmt: ast.stmt, steps: Sequence[Step]) -> Iterator[int]:
    """The lines of the choices within a statement by which a rank may leave its block without an error."""
    exits = {id(node) for node in _exits([stmt]) if not isinstance(node, ast.Raise)}
    for node in ast.walk(stmt) if exits else ():
        is_choice = isinstance(node, ast.If | ast.ExceptHandler) and not is_same_everywhere(node, steps)
        if is_choice and any(id(each) in exits for each in ast.walk(node)):
            yield node.lineno  # type: ignore[attr-defined]


def is_same_everywhere(choice: ast.AST, steps: Sequence[Step]) -> bool:
    """Whether each rank decides an ``if`` alike in the same turn: by counts of turns and by what is written down."""
    if not isinstance(choice, ast.If):
        return False
    turns = {name for step in steps if isinstance(step.owner, ast.For) for name in _counted_by(step.owner)}
    return _is_counted(choice.test, turns)


def _is_counted(test: ast.expr, turns: set[str]) -> bool:
    """Whether a test is of counts and of what is written down: every so many turns, whoever counts, but no rank."""
    match test:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in turns or name.isupper()
        case ast.BinOp(op=ast.Mod()):
            names = [getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(test)]
            return not any("rank" in name.lower() for name in names)
        case ast.BinOp() | ast.Compare() | ast.BoolOp() | ast.UnaryOp():
            return all(_is_counted(part, turns) for part in ast.iter_child_nodes(test) if isinstance(part, ast.expr))
    return False


def _counted_by(loop: ast.For) -> set[str]:
    """The names that count a loop's turns from the same number on each rank."""
    made = called_name(loop.iter) if isinstance(loop.iter, ast.Call) else ""
    match loop.target:
        case ast.Name(id=name) if made == "range":
            return {name}
        case ast.Tuple(elts=[ast.Name(id=name), *_]) if made == "enumerate":
            return {name}
    return set()


def is_by_choice(place: ProgramLine | None) -> bool:
    """Whether each rank decides by itself, by a condition around a place, whether a turn of its loop comes there."""
    steps = () if place is None or not place.loops else place.turn
    return any(step.is_choice and not is_same_everywhere(step.owner, steps) for step in steps)


def is_in_every_turn(place: ProgramLine | None) -> bool:
    """Whether each turn of the loop around a place comes to it: what differs is what the loop is over."""
    return place is not None and bool(place.loops) and not deciding(place.turn)


def are_at_one_place(one: tuple[Frame, ...], other: tuple[Frame, ...], line_of: LineOf) -> bool:
    """Whether two calls were come to in one way: by all their lines, or at one line of a loop of its own function.

    Of a call that is open the whole stack may be known, of others the line that the recorder kept.
    """
    own, others = user_frame(one), user_frame(other)
    if own is None or own != others:
        return False
    place = place_at(own, line_of)
    return one == other or (place is not None and bool(place.loops))


def callers(place: ProgramLine | None) -> dict[str, ProgramLine]:
    """The function of a place and those that call it, from within outwards, each with the place at which it is.

    By the text: as long as each function is called at one line alone.
    """
    found = dict[str, ProgramLine]()
    while place is not None and (name := "<module>" if place.home is None else place.home.name) not in found:
        found[name] = place
        lines = set() if place.home is None else _lines_of_calls(place.tree, place.home)
        place = place_in(place.text, lines.pop()) if len(lines) == 1 else None
    return found


def _lines_of_calls(tree: ast.Module, function: Function) -> set[int]:
    """The lines at which a function may be called. Of a method those on an object of its class, where some are known.

    A module calls its ``forward`` when it is called itself, and a function of autograd by ``apply``.
    """
    names, name = bindings_of(tree), function.name
    calls = [(call.lineno, call, names.of(call.func)) for call in calls_in(tree)]
    home = next((n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and function in n.body), None)
    if home is not None:
        forms = {f"{home}().{name}", f"{home}.{name}"}
        forms |= {f"{home}()", f"{home}.apply"} if name in ("__call__", "forward") else set()
        forms |= {home} if name == "__init__" else set()
        known = {line for line, _, form in calls if form in forms}
        if known:
            return known
    return {line for line, call, form in calls if called_name(call) == name and form[0] in ("?", name[0])}


def callers_in_common(
    ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf
) -> tuple[Frame, Frame] | None:
    """The lines of one function from which two places of a file are reached; for recorders that keep one frame.

    None when no function has both, or at one line.
    """
    left, right = (next((f for f in stack if not f.is_library), None) for stack in (ours, theirs))
    if left is None or right is None or left.file != right.file:
        return None
    here, there = (callers(place_at(frame, line_of)) for frame in (left, right))
    name = next((each for each in here if each in there), None)
    if name is None or here[name].line == there[name].line:
        return None
    return replace(left, function=name, line=here[name].line), replace(left, function=name, line=there[name].line)


def comes_first(
    before: tuple[Frame, ...], ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf
) -> bool | None:
    """Whether a program that was at `before` comes to `ours` before it comes to `theirs`, by its text. None: unclear.

    All three are stacks, or what is known of them. From `before` a program goes on in the innermost function first: to
    lines below it, or to the next turn of a loop around it; then in the function that called that one.
    """
    was, here, there = (path_of(stack, line_of) for stack in (before, ours, theirs))
    if any(are_branches(here[function], there[function]) for function in here.keys() & there.keys()):
        return None
    # In the head of a loop a generator begins, or runs on to the next turn.
    found = {_is_nearer(was, here, there, is_turn=is_turn) for is_turn in (False, True)}
    return found.pop() if len(found) == 1 else None


def _is_nearer(was: "Path", here: "Path", there: "Path", *, is_turn: bool) -> bool | None:
    """See `comes_first`. `is_turn`: the head of a loop belongs to each of its turns."""
    near, far = (_distance(was, path, is_turn=is_turn) for path in (here, there))
    if near is None or far is None or near == far:
        return None
    first, last = min(near, far), max(near, far)
    if first[2]:
        # A loop over parameters or handles may have had all its turns: the other may come before the next turn around.
        inner, outer = _loop_at(was, first), _loop_at(was, last)
        tree = list(was.values())[first[0]].tree
        if (
            inner is not None
            and inner is not outer
            and (outer is not None or last is far)
            and not is_of_steps(inner, tree)
        ):
            return None
    return near < far


Path = Mapping[tuple[str, str], ProgramLine]
_Distance = tuple[int, int, bool, int]
"""Functions outwards, loops outwards, whether in the next turn of that loop, and the line."""


def _loop_at(before: Path, at: _Distance) -> Loop | None:
    """The loop around `before` in a turn of which a place lies, by its distance; None outside of all."""
    return next(iter(list(before.values())[at[0]].loops[at[1] :]), None)


def _distance(before: Path, path: Path, *, is_turn: bool) -> _Distance | None:
    """How far a program that was at `before` is from `path`, for comparisons; None when it does not come there."""
    for depth, (function, after) in enumerate(before.items()):
        if function not in path:
            continue
        line = _exit_of(path[function], after)
        bodies = [
            (loop.lineno if is_turn else loop.body[0].lineno, loop.body[-1].end_lineno or 0) for loop in after.loops
        ]
        level = next((n for n, (first, last) in enumerate(bodies) if first <= line <= last), len(bodies))
        if level < len(bodies) or line > after.line:
            return depth, level, line <= after.line, line
    return None


def path_of(stack: tuple[Frame, ...], line_of: LineOf) -> Path:
    """The place of a stack in each function, from within; where frames were cut off, as far as the text tells."""
    found: dict[tuple[str, str], ProgramLine] = {}
    for frame in stack:
        place = None if frame.is_platform else place_at(frame, line_of)
        if place is not None:
            found.setdefault((frame.file, frame.function.rpartition(".")[2]), place)
    for (file, _), place in list(found.items())[-1:]:
        for name, outer in callers(place).items():
            found.setdefault((file, name), outer)
    return found
