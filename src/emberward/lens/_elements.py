"""Loops of a program that read a tensor number by number. Pure.

[Note: number by number]
A loop that takes single numbers out of tensors waits for each of them, and all that it does besides is done for one
number at a time: without the loop, all that is spent in it goes. The text shows a loop whose own variable picks what is
read (``x[i].item()``, ``for each in x: float(each)``, ``p.grad.norm().item()``,
``(x == i).sum().item()``) or tested (``if x[i] == y[i]``); that
numbers of tensors are read there, and not those of lists, the observed steps say: `MIN_READS` and more of them. A loop
that trains is none.
"""

import ast
from collections.abc import Iterator, Sequence

from emberward.findings import Cause
from emberward.lens._samples import Instruction, RankSamples
from emberward.lens._searches import bound_in
from emberward.lens._source import Sources, call_name

MIN_READS = 100
"""Numbers that a step takes out of tensors: the metrics of a step are fewer."""
_LOOPS = ast.For | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_NUMBERS = frozenset({"item", "tolist", "float", "int", "bool"})
TRAINS = frozenset({"backward", "step", "zero_grad"})


def read_one_by_one(users: Sequence[Instruction], rank: RankSamples, sources: Sources) -> tuple[Cause, str] | None:
    """How the loop in which the innermost of `users` stands reads numbers, and its line that does; None for none."""
    if rank.num_reads < MIN_READS:
        return None
    for place in users:
        source = sources.of(place.file)
        node = source.node_at(place)
        for loop in [] if node is None else [node, *(parent for _, parent in source.above(node))]:
            if not isinstance(loop, _LOOPS):
                continue
            if any(isinstance(each, ast.Call) and call_name(each) in TRAINS for each in ast.walk(loop)):
                return None
            found = min(_reads(loop), key=lambda read: (read[0].value, read[1]), default=None)
            if found is not None:
                return found[0], f"{place.file}:{found[1]}"
    return None


def _base(node: ast.AST) -> ast.AST:
    """What methods are called on, or attributes taken of, one after the other."""
    while isinstance(node, ast.Attribute | ast.Call):
        of = node.func if isinstance(node, ast.Call) else node
        if not isinstance(of, ast.Attribute):
            break
        node = of.value
    return node


def _reads(loop: ast.AST) -> Iterator[tuple[Cause, int]]:
    """Where the loop's own variable picks a number that is read or tested."""
    turning = bound_in(loop)

    def picks(node: ast.AST) -> bool:
        node = _base(node)
        if isinstance(node, ast.BinOp | ast.Compare | ast.UnaryOp):
            return any(picks(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
        if isinstance(node, ast.Subscript):
            return any(isinstance(each, ast.Name) and each.id in turning for each in ast.walk(node.slice))
        return isinstance(node, ast.Name) and node.id in turning

    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and call_name(node) in _NUMBERS:
            read = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if node.args else node
            if picks(read):
                yield Cause.ITEM, node.lineno
        asks: list[ast.expr] = node.ifs if isinstance(node, ast.comprehension) else []
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            asks = [node.test]
        for asked in asks:
            test = asked.operand if isinstance(asked, ast.UnaryOp) else asked
            parts = test.values if isinstance(test, ast.BoolOp) else [test]
            sides = [s for t in parts for s in ([t.left, *t.comparators] if isinstance(t, ast.Compare) else [t])]
            if any(isinstance(each, ast.Subscript) and picks(each) for each in sides):
                yield Cause.BOOL, asked.lineno
