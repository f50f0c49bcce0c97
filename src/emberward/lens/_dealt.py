"""Where a program deals out what its ranks compute with. Pure.

[Note: dealt unevenly]
Where ranks run the same operations, one of them with more numbers, the line that computes is not to be changed: the
data were dealt so. Back from what the line is given, by name in its function, the nearest statement that asks which
rank this is, or makes a sampler that does, deals them; where no statement of the function does, it is one of a function
or class of the program's that such a statement calls.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from emberward.lens._operations import KERNEL, RankOperations
from emberward.lens._source import Source, Sources, bound_by, call_name, read_in

ALIKE = 0.95
"""Of the operations of a step, those that another rank runs too, from which on ranks run the same ones."""
_ASKS = re.compile(r"(^|_)rank$|^process_index$|^split_dataset_by_node$|^Distributed\w*Sampler$", re.IGNORECASE)
_OF_PLACES = frozenset({"DistributedDataParallel", "DDP", "FSDP", "FullyShardedDataParallel", "cuda", "device", "to"})
"""Calls that put something at a rank's place, and deal no data."""
_SEEDS = frozenset({"manual_seed", "seed"})
_Bound = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For


def runs_alike(ranks: Sequence[RankOperations]) -> bool:
    """Whether the ranks run the same operations in the observed steps, whatever their sizes."""
    kinds = [Counter(op.name for op in rank.operations if KERNEL.match(op.name)) for rank in ranks if rank.num_steps]
    most = max((each.total() for each in kinds), default=0)
    shared = kinds[0].total() if kinds else 0
    for each in kinds[1:]:
        shared = min(shared, (kinds[0] & each).total())
    return len(kinds) > 1 and shared >= ALIKE * most


def dealt_at(site: str, sources: Sources) -> str | None:
    """The line that deals out what a line computes with; None where none is seen to ask for the rank."""
    file, _, line = site.rpartition(":")
    source = sources.of(file)
    statement = source.statement_at(int(line))
    if statement is None:
        return None
    visited = [*_back_from(statement, source.function_around(statement) or source.tree)]
    own = next((each for each in visited if _asks(each)), None)
    if own is not None:
        return f"{file}:{own.lineno}"
    called = (found for each in visited for call in _calls(each) for found in _inside(call_name(call), source))
    return next((f"{where.file}:{each.lineno}" for each, where in called), None)


def _back_from(statement: ast.stmt, scope: ast.AST) -> Iterator[_Bound]:
    """The statements of a function that bind what a statement is given, the nearest first, each once."""
    assigned = [each for each in ast.walk(scope) if isinstance(each, _Bound) and bound_by(each)]
    names, known = _given(statement), set[str]()
    seen: set[_Bound] = {statement} if isinstance(statement, _Bound) else set()
    while names - known:
        known |= names
        level = [each for each in assigned if each not in seen and bound_by(each) & names and not _is_aside(each)]
        seen |= {*level}
        yield from sorted(level, key=lambda each: -each.lineno)
        names = set().union(*(_given(each) for each in level))


def _given(statement: ast.stmt) -> set[str]:
    """The names that a statement reads, without what it calls and the objects whose methods those are."""
    value = _value_of(statement)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return read_in(value)  # loss.backward()
    called = {each.func for each in ast.walk(value) if isinstance(each, ast.Call)}
    return read_in(value) - {each.id for each in called if isinstance(each, ast.Name)}


def _value_of(statement: ast.stmt) -> ast.AST:
    """What a statement computes: of a loop what it goes over."""
    value = statement.iter if isinstance(statement, ast.For) else getattr(statement, "value", None)
    return value or statement


def _is_aside(statement: _Bound) -> bool:
    """Whether a statement puts something at a rank's place, or seeds what draws."""
    return any(call_name(each) in _OF_PLACES | _SEEDS for each in _calls(statement))


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    return (each for each in ast.walk(_value_of(statement)) if isinstance(each, ast.Call))


def _asks(statement: ast.stmt) -> bool:
    """Whether a statement reads which rank this is, to do more than to name it."""
    value = _value_of(statement)
    return any(_ASKS.search(name) for name in _words(value)) and not _only_names(value)


def _words(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute):
            yield each.id if isinstance(each, ast.Name) else each.attr
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def _only_names(value: ast.AST) -> bool:
    """Whether the rank itself is all that is computed: ``dist.get_rank()``, ``int(os.environ["RANK"])``."""
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(
        call_name(each) in {"get_rank", "get_world_size", "int", "get", "getenv"}
        if isinstance(each, ast.Call)
        else isinstance(each, ast.Attribute | ast.Name) or "environ" in {*_words(each)}
        for each in parts
    )


def _inside(name: str, source: Source) -> Iterator[tuple[ast.stmt, Source]]:
    """Of a function or class of the program: the statements that ask for the rank, the innermost ones."""
    for each in (source, *source.imported):
        for node in each.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
                asking: Iterable[ast.stmt] = (stmt for stmt in ast.walk(node) if isinstance(stmt, ast.stmt))
                plain = [stmt for stmt in asking if not hasattr(stmt, "body") and _asks(stmt)]
                yield from ((stmt, each) for stmt in plain)
