"""Python's work over the numbers that ``tolist`` has made of a tensor. Pure.

[Note: lists of numbers]
What goes through a list of a tensor's numbers, one by one, a tensor could do in one go: without the list all of that
goes, so it is part of the read that made the list. The text shows the names, or the loop's values, that hold such
numbers; a statement that uses them counts while it calls nothing but what Python has for lists, dicts and texts, where
the list is made as often as it is gone through. A loop that trains is none.
"""

import ast
from collections.abc import Iterator, Sequence

from emberward.lens._elements import TRAINS
from emberward.lens._samples import Instruction
from emberward.lens._source import Source, Sources, call_name, names_in

_LOOPS = ast.For | ast.While
OF_PYTHON = frozenset(
    {
        "Counter", "abs", "add", "all", "any", "append", "count", "defaultdict", "dict", "enumerate", "extend",
        "filter", "float", "format", "get", "index", "int", "isinstance", "items", "join", "keys", "len", "list", "map",
        "max", "min", "pop", "range", "reversed", "round", "set", "setdefault", "sorted", "str", "sum", "tolist",
        "tuple", "update", "values", "zip",
    }
)  # fmt: skip
"""Functions and methods of lists, dicts, sets and texts."""


def listed_at(place: Instruction, sources: Sources) -> int | None:
    """The line of the ``tolist`` whose numbers the instruction goes through; None where it goes through none."""
    source = sources.of(place.file)
    node = source.node_at(place)
    above = [] if node is None else [node, *(parent for _, parent in source.above(node))]
    statement = next((each for each in above if isinstance(each, ast.stmt)), None)
    scope = next((each for each in above if isinstance(each, ast.FunctionDef | ast.Module)), None)
    if statement is None or scope is None or isinstance(statement, ast.FunctionDef):
        return None
    own = [statement.iter] if isinstance(statement, ast.For) else [statement]
    if any(call_name(each) not in OF_PYTHON for part in own for each in ast.walk(part) if isinstance(each, ast.Call)):
        return None
    used = set().union(*(names_in(each) for each in own))
    lines = [line for line, names in _holding(scope, above, source) if names & used]
    lines += [each.lineno for part in own for each in _reads(part)]
    return min(lines, default=None)


def _reads(node: ast.AST) -> Iterator[ast.Call]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Call) and call_name(each) == "tolist")


def _holding(scope: ast.AST, above: Sequence[ast.AST], source: Source) -> Iterator[tuple[int, set[str]]]:
    """The names that hold a tensor's numbers there, and the line that read them."""
    lists: dict[str, int] = {}
    around = {each for each in above if isinstance(each, _LOOPS)}
    for each in ast.walk(scope):
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) and call_name(each.value) == "tolist":
            turns = {parent for _, parent in source.above(each) if isinstance(parent, _LOOPS)}
            for name in (name for target in each.targets for name in names_in(target)):
                over = {loop for loop in around if isinstance(loop, ast.For) and name in names_in(loop.iter)}
                if around - over <= turns:
                    lists[name] = each.lineno
    for name, line in lists.items():
        yield line, {name}
    for loop in (each for each in above if isinstance(each, ast.For)):
        if any(isinstance(each, ast.Call) and call_name(each) in TRAINS for each in ast.walk(loop)):
            return
        lines = [each.lineno for each in _reads(loop.iter)] + [lists[n] for n in names_in(loop.iter) if n in lists]
        if lines:
            yield min(lines), names_in(loop.target)
