"""What the names of one file stand for, by its text alone: see [Note: names prove nothing] in `_expression`."""

import ast
from functools import lru_cache

MAX_DEPTH = 8
"""Most steps from a name to what it stands for."""
_ALIASES = {"dist": "torch.distributed", "np": "numpy"}
"""Usual names of modules, for a line whose file is not at hand."""
_BUILT_IN = frozenset({"open", "input"})
_MODULES = frozenset({"time", "gc", "os", "subprocess", "torch", "socket", "threading", "queue", "asyncio", "fcntl"})


@lru_cache(maxsize=64)
def bindings_of(tree: ast.Module) -> "Bindings":
    """What the names of a file stand for."""
    return Bindings(tree)


class Bindings:
    """What the names of one file stand for: imports, what they were bound to, classes of the file."""

    def __init__(self, tree: ast.Module) -> None:
        self.imports: dict[str, str] = {}
        self.values: dict[str, ast.expr] = {}
        self.types: dict[str, ast.expr] = {}
        self.elements: dict[str, ast.expr] = {}
        self.results: dict[str, ast.expr] = {}
        self.classes: set[str] = set()
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
            case ast.ClassDef(name=name):
                self.classes.add(name)
            case ast.FunctionDef(name=name):
                given = [n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None]
                if given:
                    self.results.setdefault(name, given[-1])

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case (ast.Tuple(elts=targets), ast.Tuple(elts=values)) if len(targets) == len(values):
                for each, given in zip(targets, values, strict=True):
                    self._bind(each, given)
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
        if name in self.classes:
            return name
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


def _key(node: ast.expr) -> str:
    """How a place that holds a value is written; an attribute's object does not matter: ``self.lock`` is ``.lock``."""
    if isinstance(node, ast.Name):
        return node.id
    return f".{node.attr}" if isinstance(node, ast.Attribute) else ""
