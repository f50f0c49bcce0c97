"""Which parts of a program's text ask a tensor for what the next line depends on, again and again. Pure.

[Note: searches]
A boolean mask, ``nonzero`` or ``unique`` gives as many rows as its numbers say. Where a loop within the step makes one
of the same tensor for each of its values, for each class or expert, the whole tensor is searched at each turn, on a
processor as on a device: what a sort or a scatter does in one go. A loop over other data, as over micro-batches, makes
each mask of new numbers. What is computed of the rows that were found, as by an expert, is work and no search. A loop
that does nothing but reduce them, as to a mean for each class, is one scatter: all that is spent in it goes with it.

A test, of ``if``, ``while`` or ``assert``, that reduces tensors to a yes or no decides by their values: the host waits
for the device there, and computes it for that alone.
"""

import ast
from collections.abc import Sequence

from emberward.lens._samples import Instruction
from emberward.lens._source import Sources, call_name, names_in

_SEARCHES = frozenset({"nonzero", "masked_select", "where", "argwhere", "index_select", "flatnonzero"})
_REDUCTIONS = frozenset(
    {"sum", "mean", "amax", "amin", "max", "min", "std", "var", "norm", "prod", "any", "all", "numel", "count_nonzero"}
)
_OF_VALUES = frozenset({"item", "tolist", "int", "float", "bool", "len", "range", "unique", "append"})
"""What a loop over values may call besides: what it goes over, and what it keeps."""
_CHECKS = frozenset(
    {"all", "any", "isnan", "isfinite", "isinf", "equal", "allclose", "isclose", "eq", "ne", "is_nonzero"}
)


def searched_again_at(place: Instruction, sources: Sources) -> str | None:
    """The line, as file:line, at which the instruction's loop makes a mask of the same tensor at each turn.

    None where it does not, or the instruction has no part in that.
    """
    source = sources.of(place.file)
    node = source.node_at(place)
    above = [] if node is None else [node, *(parent for _, parent in source.above(node))]
    statement = next((each for each in above if isinstance(each, ast.stmt)), None)
    loops = [each for each in above if isinstance(each, ast.For | ast.ListComp | ast.GeneratorExp | ast.DictComp)]
    if statement is None or not loops:
        return None
    loop = loops[0]
    turning = bound_in(loop)
    masks = [each for each in ast.walk(loop) if isinstance(each, ast.Compare) and _is_of_same(each, loop, turning)]
    named = {
        target.id
        for each in ast.walk(loop)
        if isinstance(each, ast.Assign) and any(mask in ast.walk(each.value) for mask in masks)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    if not masks or node is None:
        return None
    if _reduces_alone(loop, masks, named):
        return f"{place.file}:{min(mask.lineno for mask in masks)}"
    is_whole = isinstance(node, ast.stmt) and not isinstance(node, ast.For)
    return place.site if _searches([*ast.walk(node)] if is_whole else [node], masks, named) else None


def _reduces_alone(loop: ast.AST, masks: Sequence[ast.AST], named: set[str]) -> bool:
    """Whether a loop reduces what its masks find, and calls and multiplies nothing else."""
    inside = [each for each in ast.walk(loop) if each is not loop]
    calls = [call_name(each) for each in inside if isinstance(each, ast.Call)]
    is_reduced = any(
        isinstance(each, ast.Call)
        and call_name(each) in _REDUCTIONS
        and ({*ast.walk(each)} & {*masks} or named & names_in(each))
        for each in inside
    )
    has_product = any(isinstance(each, ast.MatMult) for each in inside)
    return is_reduced and not has_product and {*calls} <= _REDUCTIONS | _SEARCHES | _OF_VALUES


def _searches(own: Sequence[ast.AST], masks: Sequence[ast.AST], named: set[str]) -> bool:
    """Whether a statement or an instruction makes one of the masks, or asks for the rows that one has."""
    is_made = any(each in masks for each in own)
    indexes = [each.slice for each in own if isinstance(each, ast.Subscript)]
    calls = [each for each in own if isinstance(each, ast.Call) and call_name(each) in _SEARCHES]
    is_asked = any(named & names_in(each) or {*ast.walk(each)} & {*masks} for each in [*indexes, *calls])
    return is_made or is_asked


def bound_in(loop: ast.AST) -> set[str]:
    """The variables that a loop binds at each turn."""
    targets = [loop.target] if isinstance(loop, ast.For) else [each.target for each in getattr(loop, "generators", ())]
    return {name for target in targets for name in names_in(target)}


def _is_of_same(mask: ast.Compare, loop: ast.AST, turning: set[str]) -> bool:
    """Whether one side is the loop's value and the other a tensor that the loop does not make anew."""
    if len(mask.ops) != 1 or not isinstance(mask.ops[0], ast.Eq | ast.NotEq | ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return False
    made = turning | {
        name
        for each in ast.walk(loop)
        if isinstance(each, ast.Assign | ast.AugAssign)
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
        if isinstance(target, ast.Name)
        for name in names_in(target)
    }
    sides = [names_in(each) for each in (mask.left, mask.comparators[0])]
    return any(value & turning and other and not other & made for value, other in (sides, sides[::-1]))


def decides(users: Sequence[Instruction], sources: Sources) -> bool:
    """Whether the innermost of `users` reduces tensors to a yes or no that a test asks for, there or in a caller."""
    if sources.called(users[0]) not in _CHECKS:
        return False
    for place in users:
        source = sources.of(place.file)
        node = source.node_at(place)
        for child, parent in source.above(node) if node is not None else ():
            if isinstance(parent, ast.If | ast.While | ast.IfExp | ast.Assert) and child is parent.test:
                return True
            if isinstance(parent, ast.Return):
                break
            if isinstance(parent, ast.stmt):
                return False
        else:
            return False
    return False
