"""What a program's text does for some ranks alone: conditions on the rank, and values that are alike on all."""

import ast
import re

from emberward.diagnose._bindings import bindings_of
from emberward.diagnose._program import ProgramLine, called_name, calls_in, covers

_RANK = re.compile(
    r"\b(?:get_(?:\w+_)?rank\(\)|(?:\w+_)?rank|is_\w*main_process|is_\w*(?:global|process|rank)_zero|process_index)$"
)

_OF_ITS_OWN = re.compile(
    r"^torch\.distributed\.get_(?:node_local_)?rank$|^open$|^(?:io|os)\.open$|^os\.(?:listdir|scandir|stat|path\.get\w+)$"
    r"|^glob\.i?glob$|^pathlib\.Path\(\)\.(?:stat|r?glob|iterdir|open|read_\w+)$|^(?:torch|numpy)\.load$"
)
"""What gives another value on another rank: which rank it is, and what lies in the folders of its node."""
_AGREES = re.compile(r"^torch\.distributed\.(?!get_|is_|init_)\w+$")


def is_of_its_own(value: ast.expr, place: ProgramLine) -> bool:
    """Whether a value is made of what each rank finds out by itself, and no call between ranks settles it.

    Names are followed to what they were bound to in the function, or in the file; functions of the file are read.
    """
    names = bindings_of(place.tree)
    functions = {node.name: node for node in ast.walk(place.tree) if isinstance(node, ast.FunctionDef)}
    scope = place.tree if place.home is None else place.home
    bound = [node for node in ast.walk(scope) if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr)]
    todo: list[ast.AST] = [value]
    seen: list[ast.AST] = []
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.append(node)
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                todo += [each.value for each in bound if each.value is not None and _binds(each, part.id)]
            if isinstance(part, ast.Call) and called_name(part) in functions:
                todo.append(functions[called_name(part)])
    asked = {names.of(call.func) for node in seen for call in calls_in(node)}
    return any(map(_OF_ITS_OWN.search, asked)) and not any(map(_AGREES.search, asked))


def _binds(node: ast.Assign | ast.AnnAssign | ast.NamedExpr, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(part, ast.Name) and part.id == name for each in targets for part in ast.walk(each))


def root_of_its_own(place: ProgramLine | None) -> str | None:
    """The text of the root of the call at a line, where each rank finds it out by itself for the group of all; else
    None."""
    calls = [] if place is None else [call for call in calls_in(place.tree) if covers(call, place.line)]
    roots = [word.value for call in calls for word in call.keywords if word.arg in ("src", "dst")]
    has_group = any("group" in (word.arg or "") for call in calls for word in call.keywords)
    if place is None or len(roots) != 1 or has_group or not is_of_its_own(roots[0], place):
        return None
    return ast.unparse(roots[0])


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
