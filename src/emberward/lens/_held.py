"""Which names of a function may hold the same numbers, and which statements may change them. Pure."""

import ast
import re

from emberward.lens._source import READERS, call_name, names_in

_FRESH = re.compile(
    r"^(clone|cat|stack|copy|deepcopy|tensor|sum|mean|norm|(empty|zeros|ones|full|rand|randn)(_like)?)$"
)
"""Calls that give a tensor of its own, with nothing of what they are given."""


def names_held(names: set[str], scope: ast.AST) -> set[str]:
    """The names that may hold the same numbers: those which `names` were made from in `scope` without a copy."""
    found, size = set(names), -1
    assigned = [node for node in ast.walk(scope) if isinstance(node, ast.Assign)]
    while size != len(found):
        size = len(found)
        for node in assigned:
            if found & {
                each for target in node.targets if not isinstance(target, ast.Subscript) for each in names_in(target)
            }:
                found |= _passed_on(node.value)
    return found


def _passed_on(value: ast.AST) -> set[str]:
    """The names whose numbers an expression may give on, rather than others made of them."""
    inside: list[ast.AST]
    match value:
        case ast.Name():
            return {value.id}
        case ast.Call():
            if _FRESH.match(call_name(value)):
                return set()
            base = [value.func.value] if isinstance(value.func, ast.Attribute) else []
            inside = [*base, *value.args, *(each.value for each in value.keywords)]
        case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Constant():
            return set()
        case _:
            inside = [*ast.iter_child_nodes(value)]
    return set().union(*map(_passed_on, inside))


def may_change(statement: ast.stmt, names: set[str]) -> bool:
    """Whether a statement may write into what one of `names` holds: it assigns to a part of it or in place, calls a
    method that torch names so (``add_``), or gives it to a function of which nothing is known."""
    for node in ast.walk(statement):
        match node:
            case ast.Assign(targets=targets) if any(names & names_in(target) for target in targets):
                return True
            case ast.AugAssign(target=target) if names & names_in(target):
                return True
            case ast.Call(func=ast.Attribute(attr=attr, value=base)) if attr.endswith("_") and names & names_in(base):
                return True
            case ast.Call(func=ast.Name(), args=args, keywords=keywords) if call_name(node) not in READERS and any(
                names & _passed_on(arg) for arg in (*args, *(each.value for each in keywords))
            ):
                return True
            case _:
                pass
    return False
