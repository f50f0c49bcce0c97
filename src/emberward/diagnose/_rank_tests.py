"""What a program's text does for some ranks alone: conditions on the rank, and values that are alike on all."""

import ast
import re

from emberward.diagnose._bindings import bindings_of
from emberward.diagnose._program import ProgramLine, called_name, calls_in

_RANK = re.compile(
    r"\b(?:get_(?:\w+_)?rank\(\)|(?:\w+_)?rank|is_\w*main_process|is_\w*(?:global|process|rank)_zero|process_index)$"
)


def is_for_some(inside: ProgramLine, now: ProgramLine) -> bool:
    """Whether the rank decides that a line of the same function, or the outermost loop around it, is come to at all,
    with nothing else for the other ranks to do, and not whether `now` is.
    """
    loops = [loop for loop in inside.loops if loop not in now.loops]
    end = next((n for n, step in enumerate(inside.steps) if loops and step.owner is loops[-1]), len(inside.steps))
    shared = [step.block for step in now.steps]
    ifs = [
        s.owner
        for s in inside.steps[:end]
        if isinstance(s.owner, ast.If) and not s.owner.orelse and s.block not in shared
    ]
    return any(is_of_rank(each.test, inside.tree) for each in ifs)


def is_of_some(place: ProgramLine | None) -> bool:
    """Whether a line stands under a condition that asks for the rank, and that leaves the other ranks nothing to do."""
    ifs = [] if place is None else [step.owner for step in place.steps if isinstance(step.owner, ast.If)]
    return place is not None and any(not each.orelse and is_of_rank(each.test, place.tree) for each in ifs)


def is_of_rank(test: ast.expr, tree: ast.Module) -> bool:
    """Whether a test asks which rank this is: by what its names stand for, or by themselves where that is unclear."""
    parts = [part for part in ast.walk(test) if isinstance(part, ast.Name | ast.Attribute | ast.Call)]
    return any(_RANK.search(bindings_of(tree).of(part)) or "rank" in getattr(part, "id", "") for part in parts)


def asks_for_rank(place: ProgramLine, line: int) -> bool:
    """Whether the choice at a line of the place's function asks for the rank, and leaves the other ranks nothing to do
    in its ``else``."""
    ifs = (node for node in ast.walk(place.home or place.tree) if isinstance(node, ast.If) and node.lineno == line)
    return any(not node.orelse and is_of_rank(node.test, place.tree) for node in ifs)


def is_written(value: ast.expr, place: ProgramLine) -> bool:
    """Whether a value in a function is written down, so that it is the same on every rank: a constant, or a parameter
    that has one and that no call of the file gives.
    """
    if not isinstance(value, ast.Name) or place.home is None:
        return isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id.isupper())
    given = place.home.args
    named = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(named) - len(given.defaults))
    defaults += given.defaults
    number = next((n for n, arg in enumerate(named) if arg.arg == value.id), None)
    calls = [call for call in calls_in(place.tree) if called_name(call) == place.home.name]
    is_named = any(keyword.arg == value.id for call in calls for keyword in call.keywords)
    is_given = is_named or any(len(n.args) + isinstance(n.func, ast.Attribute) > (number or 0) for n in calls)
    is_default = number is not None and isinstance(defaults[number], ast.Constant) and not is_given
    return value.id.isupper() or is_default
