"""What goes on after an error, by a program's text: handlers, and blocks that suppress errors."""

import ast

from emberward.diagnose._bindings import bindings_of
from emberward.diagnose._program import Function, ProgramLine, called_name, calls_in, line_in

_HELD = frozenset({"FileExistsError", "BlockingIOError"})


def handler_around(place: ProgramLine) -> int | None:
    """The line of the ``except`` in whose block the place lies; None outside of every handler."""
    return next((s.owner.lineno for s in reversed(place.steps) if isinstance(s.owner, ast.ExceptHandler)), None)


def tries_lock(place: ProgramLine | None) -> bool:
    """Whether a place in a loop is in the handler of what the system raises for a lock or lock file that is held."""
    handlers = [] if place is None or not place.loops else [step.owner for step in place.steps]
    kinds = [h.type for h in handlers if isinstance(h, ast.ExceptHandler) and h.type is not None]
    return any(isinstance(n, ast.Name) and n.id in _HELD for kind in kinds for n in ast.walk(kind))


def swallower_around(place: ProgramLine) -> int | None:
    """The line of what goes on after an error at the place: an ``except``, or a ``with`` that suppresses errors.

    The innermost that does not give up; None where nothing guards the place so.
    """
    for step in reversed(place.steps):
        if isinstance(step.owner, ast.Try) and step.part == "body":
            line = next((h.lineno for h in step.owner.handlers if not _gives_up(h)), None)
        elif isinstance(step.owner, ast.With | ast.AsyncWith):
            line = next((i.context_expr.lineno for i in step.owner.items if _suppresses(i, place.tree)), None)
        else:
            line = None
        if line is not None:
            return line
    return None


def _suppresses(item: ast.withitem, tree: ast.Module) -> bool:
    """Whether a ``with`` goes on after an error: `contextlib.suppress`, or a function or class of the file like it."""
    name = bindings_of(tree).of(item.context_expr)
    if name.startswith("contextlib.suppress"):
        return True
    called = called_name(item.context_expr) if isinstance(item.context_expr, ast.Call) else name.removesuffix("()")
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name == called:
            yields = [n.lineno for n in ast.walk(node) if isinstance(n, ast.Yield)]
            places = [line_in(tree, "", line) for line in yields]
            return any(swallower_around(each) is not None for each in places)
        if isinstance(node, ast.ClassDef) and node.name == called:
            exits = [n for n in node.body if isinstance(n, Function) and n.name in ("__exit__", "__aexit__")]
            given = [r.value for n in exits for r in ast.walk(n) if isinstance(r, ast.Return) and r.value is not None]
            return any(not (isinstance(value, ast.Constant) and not value.value) for value in given)
    return False


def _gives_up(handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends the block by raising or leaving the program."""
    ends = any(called_name(call) in ("exit", "_exit", "abort", "kill") for call in calls_in(handler))
    return ends or any(isinstance(node, ast.Raise) for node in ast.walk(handler))
