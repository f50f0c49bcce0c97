"""What the call at a line of the program is, by what its names stand for: imports, constructors, annotations.

[Note: names prove nothing]
``nap(5)`` sleeps when the file says ``from time import sleep as nap``, and ``store.get(key)`` waits for the rendezvous
store when `store` was made by one of torch's constructors, whatever it is called. So a name is followed to its import,
or to what it was assigned from, within its file. What cannot be followed is judged by the method alone, and only where
a call without a Python frame of its own can be one thing: an ``acquire`` or a bare ``with``, a ``wait`` (of a
communication's work: those of threads and processes have frames), a ``get`` with a key (of a store).
"""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from emberward.diagnose._program import tree_of
from emberward.events import HostState

MAX_DEPTH = 8
"""Most steps from a name to what it stands for."""
_ALIASES = {"dist": "torch.distributed", "np": "numpy"}
"""Usual names of modules, for a line whose file is not at hand."""
_C10D = r"torch\.distributed\.(?:distributed_c10d\.)?"
_MADE = r"\(\)(?:\[\])?"
_STATES = tuple(
    (state, re.compile(pattern))
    for state, pattern in (
        (HostState.SLEEP, r"^(?:time|asyncio)\.sleep$"),
        (HostState.GC, r"^gc\.collect$"),
        (HostState.STORE_WAIT, rf"^{_C10D}(?:\w*Store|_get_default_store)(?:\(\)\.(?:get|wait|check|multi_get))?$"),
        (
            HostState.P2P,
            rf"^{_C10D}(?:send|recv|isend|irecv|batch_isend_irecv|\w+_object_list)(?:{_MADE}\.wait)?$",
        ),
        (
            HostState.COLLECTIVE,
            rf"^{_C10D}(?!get_|is_)\w+(?:{_MADE}\.wait)?$|^torch\.distributed\.(?:nn|_functional_collectives)\."
            r"|^\?\.wait$",
        ),
        (HostState.SUBPROCESS, r"^subprocess\.|^os\.(?:system|wait\w*|popen)$"),
        (HostState.CHECKPOINT_IO, r"^torch\.save$|\.save_file$|^os\.f(?:data)?sync$|^torch\.distributed\.checkpoint\."),
        (
            HostState.NETWORK,
            r"^(?:socket|ssl|urllib|urllib3|requests|httpx|http)\.|^(?:\w+\.)?(?:\w+\(\)\.)?"
            r"(?:recv_into|recvfrom|sendall|urlopen|getaddrinfo)$|^\?\.(?:recv|accept|connect)$",
        ),
        (
            HostState.FILE_READ,
            r"^open$|^io\.open|^os\.(?:read|open|readv|pread)$|^(?:numpy|torch)\.load$|^open\(\)\.|^\?\.read\w*$"
            r"|^pathlib\.Path\(\)\.(?:open|read_\w+)$|^input$",
        ),
        (
            HostState.LOCK,
            r"^(?:threading|multiprocessing|_thread|queue)\.\w+\(\)(?:\.(?:acquire|wait|get|put|join|__enter__))$"
            r"|^fcntl\.(?:flock|lockf)$|^\?\.(?:acquire|__enter__|get)$",
        ),
        (HostState.DEVICE_SYNC, r"\.(?:item|tolist|cpu|synchronize)$"),
    )
)


@lru_cache(maxsize=1024)
def state_at(text: str | None, line: str | None, number: int) -> HostState | None:
    """What a process is in at line `number` of `text`, or at `line` where no whole text is at hand; None if unclear."""
    if text is not None and (tree := tree_of(text)) is not None:
        return _state(tree, number)
    if line is None:
        return None
    bare = line.strip()
    for form in (bare, f"{bare}\n    pass", f"{bare})", f"({bare}"):
        tree = tree_of(form)
        if tree is not None:
            return _state(tree, 1)
    return None


@lru_cache(maxsize=1024)
def does_save(text: str | None, number: int) -> bool:
    """Whether the function around a line writes a checkpoint, and does not train."""
    tree = None if text is None else tree_of(text)
    if tree is None:
        return False
    around = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and _holds(n, number)]
    home = max(around, key=lambda f: f.lineno, default=None)
    if home is None:
        return False
    names = _names_of(tree)
    calls = [node for node in ast.walk(home) if isinstance(node, ast.Call)]
    states = {_state_of(names.of(call.func)) for call in calls}
    trains = any(isinstance(call.func, ast.Attribute) and call.func.attr == "backward" for call in calls)
    return HostState.CHECKPOINT_IO in states and not trains and HostState.COLLECTIVE not in states


def _holds(node: ast.stmt | ast.expr, number: int) -> bool:
    return node.lineno <= number <= (node.end_lineno or node.lineno)


def _state(tree: ast.Module, number: int) -> HostState | None:
    names = _names_of(tree)
    found = [_state_of(name) for name in _waited_at(tree, names, number)]
    return next((state for state, _ in _STATES if state in found), None)


def _waited_at(tree: ast.Module, names: "_Names", number: int) -> Iterator[str]:
    """What is called at a line, as dotted names, and what is entered there by ``with``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _holds(node, number):
            name = names.of(node.func)
            method = node.func.attr if isinstance(node.func, ast.Attribute) else None
            # Of a mapping's get, which never waits, only the key is known: one that waits is a store's.
            is_keyed = method == "get" and bool(node.args) and name == "?.get"
            yield f"{'torch.distributed.Store().get' if is_keyed else name}"
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if _holds(item.context_expr, number) and not isinstance(item.context_expr, ast.Call):
                    yield "?.__enter__"


def _state_of(name: str) -> HostState | None:
    return next((state for state, pattern in _STATES if pattern.search(name)), None)


@lru_cache(maxsize=64)
def _names_of(tree: ast.Module) -> "_Names":
    return _Names(tree)


class _Names:
    """What the names of one file stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self.imports: dict[str, str] = {}
        self.values: dict[str, ast.expr] = {}
        self.types: dict[str, ast.expr] = {}
        self.elements: dict[str, ast.expr] = {}
        self.results: dict[str, ast.expr] = {}
        for node in ast.walk(tree):
            self._take(node)

    def _take(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for each in names:
                    # ``import a.b`` binds a; ``import a.b as c`` binds c to a.b.
                    first = each.name.partition(".")[0]
                    self.imports[each.asname or first] = each.name if each.asname else first
            case ast.ImportFrom(module=str() as module, names=names, level=0):
                for each in names:
                    self.imports[each.asname or each.name] = f"{module}.{each.name}"
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                self._bind(target, value) if value is not None else self.types.setdefault(_key(target), annotation)
            case (
                ast.NamedExpr(target=target, value=value)
                | ast.withitem(optional_vars=ast.Name() as target, context_expr=value)
            ):
                self._bind(target, value)
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                self.types.setdefault(name, annotation)
            case ast.For(target=target, iter=sequence) | ast.comprehension(target=target, iter=sequence):
                self.elements.setdefault(_key(target), sequence)
            case ast.Call(func=ast.Attribute(value=base, attr="append"), args=[value]):
                self.values[f"{_key(base)}[]"] = value
            case ast.FunctionDef(name=name):
                given = [n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None]
                if given:
                    self.results.setdefault(name, given[-1])

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(value, ast.Constant):
            self.values.setdefault(_key(target), value)

    def of(self, node: ast.expr, depth: int = 0) -> str:
        """The dotted name of an expression. ``()``: a call's result, ``[]``: an element, ``?``: unknown."""
        if depth > MAX_DEPTH:
            return "?"
        deeper = depth + 1
        match node:
            case ast.Name(id=name):
                return self._of_name(name, deeper)
            case ast.Attribute(value=base, attr=attr):
                key = _key(node)
                if key in self.values or key in self.types:
                    return self._bound(key, deeper)
                owner = self.of(base, deeper)
                return f"{'?' if owner.startswith('?') else owner}.{attr}"
            case ast.Call(func=ast.Name(id=name)) if name in self.results and name not in self.imports:
                return self.of(self.results[name], deeper)
            case ast.Call(func=function):
                return f"{self.of(function, deeper)}()"
            case ast.Subscript(value=base):
                return self._element(base, deeper)
            case ast.Await(value=inner) | ast.IfExp(body=inner) | ast.Starred(value=inner):
                return self.of(inner, deeper)
            case ast.BoolOp(values=[*_, inner]):
                return self.of(inner, deeper)
        return "?"

    def _of_name(self, name: str, depth: int) -> str:
        if name in self.imports:
            return self.imports[name]
        if name in self.values or name in self.types:
            return self._bound(name, depth)
        if name in self.elements:
            return self._element(self.elements[name], depth)
        if name in _BUILT_IN:
            return name
        if not self.imports and name not in self.results:
            return _ALIASES.get(name, name if name in _MODULES else "?")
        return "?"

    def _bound(self, key: str, depth: int) -> str:
        if key in self.values:
            return self.of(self.values[key], depth)
        found = self.of(self.types[key], depth)
        return "?" if found == "?" else f"{found}()"

    def _element(self, base: ast.expr, depth: int) -> str:
        match base:
            case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]) | ast.ListComp(elt=first):
                return self.of(first, depth)
            case ast.Name() | ast.Attribute():
                key = _key(base)
                if f"{key}[]" in self.values:
                    return self.of(self.values[f"{key}[]"], depth)
                if key in self.values:
                    return self._element(self.values[key], depth + 1) if depth <= MAX_DEPTH else "?"
        found = self.of(base, depth)
        return "?" if found == "?" else f"{found}[]"


_BUILT_IN = frozenset({"open", "input"})
_MODULES = frozenset({"time", "gc", "os", "subprocess", "torch", "socket", "threading", "queue", "asyncio", "fcntl"})


def _key(node: ast.expr) -> str:
    """How a place that holds a value is written; an attribute's object does not matter: ``self.lock`` is ``.lock``."""
    if isinstance(node, ast.Name):
        return node.id
    return f".{node.attr}" if isinstance(node, ast.Attribute) else ""
