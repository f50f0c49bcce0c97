"""What an instruction is in the text of its program: the call it makes, and the calls that it is an argument of.

[Note: what feeds the training]
A value feeds the training when the loss is computed from it: among the assignments of the function that calls
``backward``, by name, back from what it is called on. In a function without a backward it does when it is an argument
of a call that does more than show or keep it. A value that is returned or yielded belongs to the caller's line, and so
does a wait in a function that gives its caller something: there only of a call that is given nothing which was computed
before, for that is a source of data and no part of the model.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from emberward.lens._samples import Instruction

MAX_SOURCE_BYTES = 4 << 20
MAX_FOLDERS = 3
"""In which what a file imports is looked for: its own, and those above it."""

LOG_LEVELS = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})
WRITERS = frozenset({"print", *LOG_LEVELS})
"""Names of calls that show a text to people and do nothing else with it."""

ReadText = Callable[[str], str]
Line = tuple[str, int]
_LOOPS = ast.For | ast.While | ast.ListComp | ast.GeneratorExp
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
    """The parsed text of one file. `of` gives that of another one."""

    text: str
    file: str
    of: "Callable[[str], Source]" = field(repr=False, compare=False)

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree, of ``a, b = x, y`` two statements; an empty one where the text is no Python."""
        try:
            tree = ast.parse(self.text)
            _Apart().visit(tree)
            return tree
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

    def node_at(self, place: Instruction) -> Node | None:
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

    @cached_property
    def renamed(self) -> dict[str, str]:
        """Other names that the file gives to functions: ``from torch import nonzero as rows``, ``rows = x.nonzero``."""
        found: dict[str, set[str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                for each in node.names:
                    found.setdefault(each.asname or each.name, set()).add(each.name)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute | ast.Name):
                last = node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, set()).add(last)
        return {name: last for name, names in found.items() if len(names) == 1 for last in names}

    @cached_property
    def modules(self) -> set[str]:
        """The names by which the file has modules that it imports whole, and torch's ``distributed``."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        whole = [
            each for node in nodes for each in node.names if isinstance(node, ast.Import) or each.name == "distributed"
        ]
        return {each.asname or each.name.partition(".")[0] for each in whole}

    def named(self, call: ast.Call) -> str:
        """The last name of what is called, by the name that it was defined with.

        A method ``float`` casts a tensor, as its ``type`` does; the function reads a number of it.
        """
        name = call_name(call)
        if isinstance(call.func, ast.Name):
            return self.renamed.get(name, name)
        return "type" if name in ("float", "int", "bool") else name

    def above(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """(child, parent) from the node up to the module."""
        while (parent := self.parents.get(node)) is not None:
            yield node, parent
            node = parent

    @cached_property
    def _objects(self) -> set[str]:
        """The names of arguments, of what a call made, and of attributes that are no methods."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                found |= {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                found |= names_in(node.targets[0])
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
        return found - {node.name for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}

    def is_object(self, called: ast.expr) -> bool:
        """Whether what is called is an object that the program was given or made, rather than a function."""
        if isinstance(called, ast.Attribute):
            return isinstance(called.value, ast.Name) and called.value.id == "self" and called.attr in self._objects
        return isinstance(called, ast.Name) and called.id in self._objects

    def function(self, name: str) -> ast.FunctionDef | None:
        """The one function or method of that name in the file; None when there is none, or several."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef) and node.name == name]
        return found[0] if len(found) == 1 else None

    def statement_at(self, line: int) -> ast.stmt | None:
        """The smallest statement that holds the line, of one with a body its head; None where there is none."""
        found = [
            each
            for each in self._by_line.get(line, [])
            if isinstance(each, ast.stmt) and (each.lineno == line or not hasattr(each, "body"))
        ]
        return max(found, key=lambda each: each.lineno, default=None)

    def function_around(self, node: ast.AST) -> ast.FunctionDef | None:
        """The innermost function that a node stands in."""
        return next((each for _, each in self.above(node) if isinstance(each, ast.FunctionDef)), None)

    @cached_property
    def imported(self) -> tuple["Source", ...]:
        """The files of the program that the file imports: those that lie in its folder, or in one above it."""
        modules: list[tuple[str, int]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                modules += [(each.name, 0) for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = f"{node.module}." if node.module else ""
                modules += [(node.module or "", node.level), *((base + each.name, node.level) for each in node.names)]
        folders = [*Path(self.file).parents][:MAX_FOLDERS]
        found: dict[str, Source] = {}
        for module, level in modules:
            for folder in folders[level - 1 : level] if level else folders:
                file = str(folder.joinpath(*module.split("."))) + ".py"
                if module and file not in found and (source := self.of(file)).text:
                    found[file] = source
                    break
        return tuple(found.values())

    def defined(self, name: str) -> "tuple[ast.FunctionDef, Source] | None":
        """The one function or method of that name in the file, else in those that it imports, and its file."""
        own = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef) and node.name == name]
        if own:
            return (own[0], self) if len(own) == 1 else None
        name = self.renamed.get(name, name)
        found = [(function, each) for each in self.imported if (function := each.function(name)) is not None]
        return found[0] if len(found) == 1 else None


class _Apart(ast.NodeTransformer):
    """Makes a statement of each pair of ``a, b = x, y``, where no value reads what another one is bound to."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | list[ast.Assign]:
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(node.targets) > 1:
            return node
        parts = [*target.elts, *value.elts]
        if len(target.elts) != len(value.elts) or any(isinstance(each, ast.Starred) for each in parts):
            return node
        if names_in(target) & names_in(value):
            return node
        pairs = zip(target.elts, value.elts, strict=True)
        return [ast.copy_location(ast.Assign(targets=[left], value=right), node) for left, right in pairs]


def _extent(node: Node) -> tuple[int, int]:
    return (node.end_lineno or 0) - node.lineno, (node.end_col_offset or 0) - node.col_offset


class Sources:
    """The files of a program, each read and parsed once. `read` gives a file's text, empty when there is none."""

    def __init__(self, read: ReadText = read_text) -> None:
        self._read = read
        self._known: dict[str, Source] = {}
        self.unused: dict[tuple[tuple[str, int, int | None], ...], int | None] = {}
        """Of stacks: what `unused_at` found."""

    def of(self, file: str) -> Source:
        """The file's source."""
        found = self._known.get(file)
        if found is None:
            found = self._known[file] = Source(self._read(file), file, self.of)
        return found

    def program(self, files: Iterable[str]) -> list[Source]:
        """Files of the program, and what they import of it."""
        found: dict[str, Source] = {}
        left = [self.of(file) for file in files]
        while left:
            each = left.pop()
            if each.file not in found and each.text:
                found[each.file] = each
                left += each.imported
        return [*found.values()]

    def called(self, place: Instruction) -> str:
        """The name of what the instruction calls, ``item`` of ``loss.item()``; empty when it calls nothing."""
        source = self.of(place.file)
        node = source.node_at(place)
        for _ in range(3):  # A call's own instruction may cover its function alone.
            if isinstance(node, ast.Call):
                return source.named(node)
            parent = None if node is None else self.of(place.file).parents.get(node)
            if not isinstance(parent, ast.Call) or parent.func is not node:
                return ""
            node = parent
        return ""

    def is_of_base(self, place: Instruction) -> bool:
        """Whether the instruction calls the method of a base class that its own stands for: ``super().log(...)``."""
        source = self.of(place.file)
        node = source.node_at(place)
        above = [] if node is None else [node, *(parent for _, parent in source.above(node))]
        call = next((each for each in above if isinstance(each, ast.Call)), None)
        of = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else call
        return isinstance(of, ast.Call) and call_name(of) == "super"

    def fed_at(self, users: Sequence[Instruction], *, is_from_source: bool = False) -> Instruction | None:
        """The line that binds what `users`, frames from the innermost on, wait for; None where it feeds nothing.

        `is_from_source`: it is known that no model has a part in it. See [Note: what feeds the training].
        """
        for index, place in enumerate(users):
            source = self.of(place.file)
            node = source.node_at(place)
            if node is None:
                return None
            if isinstance(node, ast.For):
                node = node.iter  # The instruction that asks for the next turn covers the whole loop.
            above = [node, *(parent for _, parent in source.above(node))]
            statement = next((each for each in above if isinstance(each, ast.stmt)), None)
            if isinstance(statement, ast.Return) or any(isinstance(each, ast.Yield) for each in above):
                continue
            names = bound_at(statement, above)
            scope = next((each for each in above if isinstance(each, ast.FunctionDef | ast.Module)), source.tree)
            if not names and isinstance(statement, ast.Expr) and returns(None, scope):
                continue  # A wait before the value that the caller gets.
            if is_from_source and index + 1 < len(users) and returns(None, scope) and not _has_model(scope, source):
                continue  # What the function does is for that value.
            is_next = isinstance(statement, ast.For) or self.called(place) == "next"
            is_source = is_from_source or index == 0 or is_next or not self._is_given(above, scope, users[index - 1])
            if names and feeds(names, scope):
                return place if is_source else None
            if not (names and returns(names, scope)):
                return None
        return None

    def _is_given(self, above: Sequence[ast.AST], scope: ast.AST, inner: Instruction) -> bool:
        """Whether the call is given what was computed: by name, or in place where its function is part of a model."""
        call = next((each for each in above if isinstance(each, ast.Call)), None)
        given = [] if call is None else [*call.args, *(each.value for each in call.keywords)]
        if _computed(scope) & {name for arg in given for name in names_in(arg)}:
            return True
        source = self.of(inner.file)
        node = source.node_at(inner)
        above = [] if node is None else [parent for _, parent in source.above(node)]
        function = next((each for each in above if isinstance(each, ast.FunctionDef)), source.tree)
        is_nested = any(isinstance(each, ast.Call) for arg in given for each in ast.walk(arg))
        return is_nested and any(
            isinstance(each, ast.MatMult) or (isinstance(each, ast.Call) and source.is_object(each.func))
            for each in ast.walk(function)
        )

    def evaluates(self, place: Instruction) -> bool:
        """Whether the instruction's function is one that evaluates: without gradients there, or with ``eval()``."""
        source = self.of(place.file)
        node = source.node_at(place)
        scope = (
            next((each for _, each in source.above(node) if isinstance(each, ast.FunctionDef)), None) if node else None
        )
        calls = [] if scope is None else [each for each in ast.walk(scope) if isinstance(each, ast.Call)]
        return self.is_without_gradients(place) or any(
            call_name(call) == "eval" and isinstance(call.func, ast.Attribute) and not call.args for call in calls
        )

    def is_without_gradients(self, place: Instruction) -> bool:
        """Whether the instruction stands in a block, or a function, that computes no gradients."""
        return self._without_gradients(place) is not None

    def _without_gradients(self, place: Instruction) -> ast.With | ast.FunctionDef | None:
        source = self.of(place.file)
        node = source.node_at(place)
        for _, parent in source.above(node) if node is not None else ():
            if isinstance(parent, ast.With) and any(_NO_GRADIENTS & _last_names(each) for each in parent.items):
                return parent
            if isinstance(parent, ast.FunctionDef):
                is_marked = any(_NO_GRADIENTS & _last_names(each) for each in parent.decorator_list)
                return parent if is_marked else None
        return None

    def is_in_generator(self, place: Instruction) -> bool:
        """Whether the instruction's function yields what its caller asks for."""
        source = self.of(place.file)

        def function_of(node: ast.AST | None) -> ast.AST | None:
            above = source.above(node) if node is not None else ()
            return next((each for _, each in above if isinstance(each, ast.FunctionDef | ast.Lambda)), None)

        scope = function_of(source.node_at(place))
        yields = [each for each in ast.walk(scope or ast.Pass()) if isinstance(each, ast.Yield | ast.YieldFrom)]
        return any(function_of(each) is scope for each in yields)

    def only_scores(self, place: Instruction) -> bool:
        """Whether the instruction's block without gradients calls objects, as modules are, and writes into none."""
        scope = self._without_gradients(place)
        inside = [] if scope is None else [*ast.walk(scope)]
        calls = [each for each in inside if isinstance(each, ast.Call)]
        turns = {name for each in inside if isinstance(each, ast.For) for name in names_in(each.target)}
        writes = any(call_name(call).endswith("_") for call in calls) or any(
            isinstance(each, ast.AugAssign) and (not isinstance(each.target, ast.Name) or each.target.id in turns)
            for each in inside
        )
        return not writes and any(self.of(place.file).is_object(call.func) for call in calls)

    def only_call(self, file: str, line: int) -> tuple[int, int, int] | None:
        """Column, last line and last column of the one call that begins in a line; None unless it is one."""
        calls = [node for node in ast.walk(self.of(file).tree) if isinstance(node, ast.Call) and node.lineno == line]
        if len(calls) != 1:
            return None
        return calls[0].col_offset, calls[0].end_lineno or line, calls[0].end_col_offset or 0

    def loops(self, place: Instruction) -> bool:
        """Whether the instruction stands in a loop of its function."""
        source = self.of(place.file)
        node = source.node_at(place)
        above = [] if node is None else [parent for _, parent in source.above(node)]
        scope = next((i for i, each in enumerate(above) if isinstance(each, ast.FunctionDef)), len(above))
        return any(isinstance(each, ast.While | ast.For) for each in above[:scope])


KEEPERS = WRITERS | {"append", "put", "put_nowait", "add", "extend", "write", "isinstance", "len"}
"""Calls that show or keep what they are given."""


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def read_in(node: ast.AST) -> set[str]:
    """The names that are read there, and not those that are only bound."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def _has_model(scope: ast.AST, source: Source) -> bool:
    """Whether a function calls an object, as a module is, or a backward."""
    calls = (each for each in ast.walk(scope) if isinstance(each, ast.Call))
    return any(source.is_object(call.func) or call_name(call) == "backward" for call in calls)


def bound_at(statement: ast.stmt | None, above: Sequence[ast.AST]) -> set[str]:
    """The names that take the value which is computed at the first of `above`."""
    if isinstance(statement, ast.For):
        return names_in(statement.target) if any(each is statement.iter for each in above) else set()
    if isinstance(statement, ast.Assign):
        return {name for target in statement.targets for name in names_in(target)}
    return names_in(statement.target) if isinstance(statement, ast.AnnAssign | ast.AugAssign) else set()


def feeds(names: set[str], scope: ast.AST) -> bool:
    calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call)]
    backward = [call for call in calls if call_name(call) == "backward"]
    if not backward:
        kept = {each for call in calls if call_name(call) in KEEPERS for each in ast.walk(call)}
        given = [arg for call in calls if call not in kept for arg in (*call.args, *call.keywords)]
        return any(names & names_in(arg) for arg in given)
    return bool(names & reached_by(scope))


def reached_by(scope: ast.AST) -> set[str]:
    """The names from which a function computes what it calls ``backward`` on, or what it returns where it never does.

    Empty where it does neither.
    """
    calls = [each for each in ast.walk(scope) if isinstance(each, ast.Call) and call_name(each) == "backward"]
    given = [each.value for each in ast.walk(scope) if isinstance(each, ast.Return) and each.value is not None]
    reached = set().union(*(names_in(each) for each in calls or given))
    assigned = [
        (bound, names_in(node.iter if isinstance(node, ast.For) else node))
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For) and (bound := bound_by(node))
    ]
    size = -1
    while size != len(reached):
        size = len(reached)
        for bound, used in assigned:
            if bound & reached:
                reached |= used
    return reached


_NO_GRADIENTS = frozenset({"no_grad", "inference_mode"})


def _last_names(node: ast.AST) -> set[str]:
    found = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return found | names_in(node)


def made_of(names: set[str], scope: ast.AST) -> set[str]:
    """The names, and those that are computed from them."""
    found, size = set(names), -1
    assigned = [
        (bound_by(node), names_in(node.iter if isinstance(node, ast.For) else node.value))
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.For)
    ]
    while size != len(found):
        size = len(found)
        found |= {name for bound, used in assigned if used & found for name in bound}
    return found


def bound_by(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For) -> set[str]:
    return bound_at(node, [node.iter]) if isinstance(node, ast.For) else bound_at(node, [])


def returns(names: set[str] | None, scope: ast.AST) -> bool:
    """Whether the function gives one of the names to its caller; of None, whether it gives anything."""
    given = [node for node in ast.walk(scope) if isinstance(node, ast.Return | ast.Yield) and node.value is not None]
    return any(names is None or names & names_in(node) for node in given)


def _computed(scope: ast.AST) -> set[str]:
    """The names that a function assigns what a call gives."""
    assigned = [node for node in ast.walk(scope) if isinstance(node, ast.Assign)]
    calls = [node for node in assigned if any(isinstance(each, ast.Call) for each in ast.walk(node.value))]
    return {name for node in calls for target in node.targets for name in names_in(target)}


def call_name(call: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""
