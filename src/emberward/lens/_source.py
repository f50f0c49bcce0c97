"""What an instruction is in the text of its program: the call it makes, and the calls that it is an argument of."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from emberward.lens._samples import Place

MAX_SOURCE_BYTES = 4 << 20

LOG_LEVELS = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})
WRITERS = frozenset({"print", *LOG_LEVELS})
"""Names of calls that show a text to people and do nothing else with it."""

ReadText = Callable[[str], str]
Node = ast.expr | ast.stmt


def read_text(file: str) -> str:
    """The text of a program's file; empty when it cannot be read."""
    path = Path(file)
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= MAX_SOURCE_BYTES else ""
    except (OSError, ValueError):
        return ""


@dataclass(frozen=True)
class Source:
    """The parsed text of one file."""

    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; an empty one where the text is no Python."""
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError):
            return ast.Module(body=[], type_ignores=[])

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Each node's parent."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def _by_line(self) -> dict[int, list[Node]]:
        found: dict[int, list[Node]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.expr | ast.stmt):
                for line in range(node.lineno, min(node.end_lineno or node.lineno, node.lineno + 200) + 1):
                    found.setdefault(line, []).append(node)
        return found

    def node_at(self, place: Place) -> Node | None:
        """The innermost node that holds the whole of the instruction's part of the text; None when there is none."""
        column = 0 if place.column is None else place.column
        last = column if place.last_column is None else place.last_column
        begin, end = (place.line, column), (place.last_line, last)
        inside = [
            node
            for node in self._by_line.get(place.line, [])
            if (node.lineno, node.col_offset) <= begin and end <= (node.end_lineno or 0, node.end_col_offset or 0)
        ]
        if not inside:
            return None
        return min(reversed(inside), key=_extent)  # Of equal ones the deepest: a call, not the statement that it is.

    def above(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """(child, parent) from the node up to the module."""
        while (parent := self.parents.get(node)) is not None:
            yield node, parent
            node = parent

    def function(self, name: str) -> ast.FunctionDef | None:
        """The one function or method of that name in the file; None when there is none, or several."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef) and node.name == name]
        return found[0] if len(found) == 1 else None


def _extent(node: Node) -> tuple[int, int]:
    return (node.end_lineno or 0) - node.lineno, (node.end_col_offset or 0) - node.col_offset


class Sources:
    """The files of a program, each read and parsed once. `read` gives a file's text, empty when there is none."""

    def __init__(self, read: ReadText = read_text) -> None:
        self._read = read
        self._known: dict[str, Source] = {}

    def of(self, file: str) -> Source:
        """The file's source."""
        found = self._known.get(file)
        if found is None:
            found = self._known[file] = Source(self._read(file))
        return found

    def called(self, place: Place) -> str:
        """The name of what the instruction calls, ``item`` of ``loss.item()``; empty when it calls nothing."""
        node = self.of(place.file).node_at(place)
        for _ in range(3):  # A call's own instruction may cover its function alone.
            if isinstance(node, ast.Call):
                return call_name(node)
            parent = None if node is None else self.of(place.file).parents.get(node)
            if not isinstance(parent, ast.Call) or parent.func is not node:
                return ""
            node = parent
        return ""

    def dropped_call(self, place: Place, outputs: frozenset[tuple[str, int]]) -> ast.Call | None:
        """The debug call, in whose arguments the instruction stands, that never printed anything; None without one.

        Such a call goes to a logging method whose level is off, or to a function of the file that does nothing with
        what it is given but print or log it under a condition. `outputs` are the lines that did print or log.
        """
        source = self.of(place.file)
        node = source.node_at(place)
        if node is None:
            return None
        for child, parent in source.above(node):
            if isinstance(parent, ast.stmt) and not isinstance(parent, ast.Assign | ast.Expr):
                return None
            if isinstance(parent, ast.Call) and child is not parent.func and self._is_debug_call(source, parent):
                lines = range(parent.lineno, (parent.end_lineno or parent.lineno) + 1)
                return None if any((place.file, line) in outputs for line in lines) else parent
            if isinstance(parent, ast.Assign) and child is parent.value:
                return self._dropped_variable(source, parent, place, outputs)
        return None

    def _dropped_variable(
        self, source: Source, assign: ast.Assign, place: Place, outputs: frozenset[tuple[str, int]]
    ) -> ast.Call | None:
        """The debug call that alone uses the text which is assigned here."""
        target = assign.targets[0]
        is_text = any(isinstance(node, ast.JoinedStr) for node in ast.walk(assign.value))
        scope = next((p for _, p in source.above(assign) if isinstance(p, ast.FunctionDef | ast.Module)), None)
        if scope is None or not is_text or not isinstance(target, ast.Name):
            return None
        uses = [
            node
            for node in ast.walk(scope)
            if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load)
        ]
        calls = [source.parents.get(node) for node in uses]
        found = [call for call in calls if isinstance(call, ast.Call) and self._is_debug_call(source, call)]
        if not found or len(found) != len(uses):
            return None
        lines = {line for call in found for line in range(call.lineno, (call.end_lineno or call.lineno) + 1)}
        return None if any((place.file, line) in outputs for line in lines) else found[0]

    @staticmethod
    def _is_debug_call(source: Source, call: ast.Call) -> bool:
        name = call_name(call)
        if isinstance(call.func, ast.Attribute) and name in LOG_LEVELS:
            return True
        function = source.function(name)
        return function is not None and only_prints(function, source)


def call_name(call: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def only_prints(function: ast.FunctionDef, source: Source) -> bool:
    """Whether a function does nothing with its texts but print or log them, and that under a condition."""
    names = {arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)} - {"self"}
    if function.args.vararg is not None:
        names.add(function.args.vararg.arg)
    has_condition = any(isinstance(node, ast.If) for node in ast.walk(function))
    writes = []
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
            above = [parent for _, parent in source.above(node)]
            is_test = any(
                isinstance(parent, ast.If) and any(node is each for each in ast.walk(parent.test)) for parent in above
            )
            call = next((parent for parent in above if isinstance(parent, ast.Call)), None)
            if is_test:
                continue
            if call is None or call_name(call) not in WRITERS:
                return False
            writes.append(call)
    is_logged = all(call_name(call) in LOG_LEVELS for call in writes)
    return bool(writes) and (has_condition or is_logged)
