"""Whether the loss may be computed from what a stack computes, by the text of its program. Pure.

See [Note: what feeds the training]. What a function of the program gives a library that calls it is the loss by the
place that libraries of training read it from: the first of several values, or the one called so.
"""

import ast
import re
from collections.abc import Iterator, Sequence

from emberward.lens._samples import USER, Instruction
from emberward.lens._source import Sources, bound_at, call_name, feeds, made_of, names_in, returns

LIBRARY = re.compile(r"-packages/(?!torch/)")


def may_train(frames: Sequence[Instruction], sources: Sources, *, is_sure: bool = False) -> bool:
    """Whether the loss may be computed from what `frames`, from the innermost on, compute there.

    `is_sure`: whether it is, by names that are bound to it, as far as the text shows.
    """
    gives_loss = False
    for place in frames:
        if place.owner != USER:
            if gives_loss and not is_sure and LIBRARY.search(place.file):
                return True
            continue
        source = sources.of(place.file)
        node = source.node_at(place)
        above = [] if node is None else [node, *(parent for _, parent in source.above(node))]
        statement = next((each for each in above if isinstance(each, ast.stmt)), None)
        if isinstance(statement, ast.Return) or any(isinstance(each, ast.Yield) for each in above):
            gives_loss = isinstance(statement, ast.Return) and any(part in above for part in _losses(statement.value))
            continue
        scope = next((each for each in above if isinstance(each, ast.FunctionDef | ast.Module)), source.tree)
        names = bound_at(statement, above)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and not is_sure:
            names = names_in(statement.value.func)
        if "self" in names:
            return not is_sure  # Whoever reads it later is not seen here.
        names = made_of(names, scope)
        if any(isinstance(each, ast.Call) and call_name(each) == "backward" for each in ast.walk(scope)):
            return feeds(names, scope)
        if not returns(names, scope):
            return False
        given = [each.value for each in ast.walk(scope) if isinstance(each, ast.Return)]
        gives_loss = any(names & names_in(part) for value in given for part in _losses(value))
    return False


def _losses(value: ast.expr | None) -> Iterator[ast.expr]:
    """The parts of a function's value that a library takes for the loss."""
    if isinstance(value, ast.IfExp):
        yield from _losses(value.body)
        yield from _losses(value.orelse)
    elif isinstance(value, ast.Tuple):
        yield from value.elts[:1]
    elif isinstance(value, ast.Dict) and any(isinstance(k, ast.Constant) and k.value == "loss" for k in value.keys):
        yield from (v for k, v in zip(value.keys, value.values, strict=True) if getattr(k, "value", None) == "loss")
    elif value is not None:
        yield value
