"""What a program does in its loop, in Python, for its files and its scores. Pure.

[Note: host work]
What Python, or a library that knows no tensors, does in the loop is the step's own work while the step uses it. Where
it goes into a file, it is `logging`, of bytes `save_in_step`: the text shows what is opened to be written, and what is
given to that. So is what an object of the program's keeps for later, a history of each step: in a list that only
methods read which no loop calls. Where it is made of what the model has computed, and the loop only shows or keeps it,
or a helper that the training never asks for anything has it, it is `eval`, of no use in this step: a score of every
batch, with what ranks exchange for it. What a loss, a branch of the loop or any other call is given is used. What torch
computes so, outside of a library of scores, counts where the loop shows it under a condition alone: made in each step,
it is shown in few.
"""

import ast
import re
from collections.abc import Iterator, Sequence

from emberward.findings import Cause
from emberward.lens._batches import Shares, is_of_python
from emberward.lens._samples import USER, Instruction
from emberward.lens._source import KEEPERS, Source, Sources, bound_by, call_name, made_of, names_in, reached_by, read_in
from emberward.lens._unused import GOTTEN_AT, kept_in, reads_of

_MODE = re.compile(r"[rwaxbt+]*[wax+][rwaxbt+]*")
_WRITE_TEXT = frozenset({"savefig", "to_csv", "to_json", "write_text"})
_WRITE_BYTES = frozenset({"imsave", "imwrite", "to_parquet", "to_pickle", "write_bytes"})
_COLLECTS = frozenset({"add", "append", "extend", "update"})
_SHOWS = KEEPERS | {
    "add_scalar", "add_scalars", "float", "format", "log_dict", "log_metrics", "max", "mean", "min", "numel", "round",
    "set_description", "set_postfix", "size", "str", "sum",
}  # fmt: skip
"""Calls that show or keep what they are given, or make a number of it that these show."""


_TRAINS = re.compile(r"/torch/(autograd|optim|utils/data)/")
_COLLECTIVES = re.compile(r"/torch/distributed/(distributed_c10d|_functional_collectives)\.py$")
_SCORES = re.compile(r"-packages/(evaluate|ignite/metrics|sklearn/metrics|torcheval|torchmetrics)/")
"""Libraries of scores: what these compute, with tensors or without, is one."""


def host_work(frames: Sequence[Instruction], sources: Sources, shares: Shares) -> tuple[Cause, Instruction] | None:
    """Why the step need not do what the thread does there, and the program's line; None where it may need it."""
    users = [place for place in frames if place.owner == USER]
    is_collective = any(_COLLECTIVES.search(place.file) for place in frames)
    if not users or any(_TRAINS.search(place.file) for place in frames):
        return None
    is_of_torch = any("/torch/" in place.file for place in frames)
    if not is_of_torch and (written := _written_at(users, sources)) is not None:
        return written
    if not is_of_torch and (kept := _kept_for_later(users, sources)) is not None:
        return Cause.LOGGING, kept
    is_score = is_collective or any(_SCORES.search(place.file) for place in frames)
    if is_collective and _writes_into_given(users[0], sources):
        return None
    is_known = is_score or (not is_of_torch and is_of_python(frames, sources, shares))
    scored = _scored_at(users, sources, is_seldom=not is_known)
    does_more = scored is not None and is_of_torch and _writes_elsewhere(users, scored, sources)
    return None if scored is None or does_more else (Cause.EVAL, scored)


def _around(place: Instruction, sources: Sources) -> tuple[list[ast.AST], ast.stmt | None, ast.AST]:
    """What stands around an instruction, from itself on, its statement and its function."""
    source = sources.of(place.file)
    node = source.node_at(place)
    above = [] if node is None else [node, *(parent for _, parent in source.above(node))]
    statement = next((each for each in above if isinstance(each, ast.stmt)), None)
    scope = next((each for each in above if isinstance(each, ast.FunctionDef | ast.Module)), source.tree)
    return above, statement, scope


def _written_at(users: Sequence[Instruction], sources: Sources) -> tuple[Cause, Instruction] | None:
    """What is written, at the innermost line that gives what is computed there to a file."""
    for place in users:
        source = sources.of(place.file)
        above, statement, scope = _around(place, sources)
        writes = _writes(scope, source)
        calls = [above[0], *above[1 : above.index(statement)]] if statement in above else []
        found = next((writes[each] for each in calls if each in writes), None)
        if found is None and statement is not None:
            found = _only_written(statement, scope, source, writes)
        if found is not None:
            return found, place
    return None


def _kept_for_later(users: Sequence[Instruction], sources: Sources) -> Instruction | None:
    """The line of a method that adds what is computed there to a list of its object's which is read behind the loops.

    What trains keeps its losses so, and what writes into anything else besides does more.
    """
    for place in users:
        above, statement, scope = _around(place, sources)
        kept = kept_in(statement.value) if isinstance(statement, ast.Expr) else None
        around = next((each for each in above if isinstance(each, ast.ClassDef)), None)
        if kept is not None and kept[1] in above and isinstance(kept[0], ast.Attribute) and around is not None:
            program = sources.program(each.file for each in users)
            reads = reads_of(kept[0], sources.of(place.file), program)
            return place if not _trains(around) and _is_behind(reads, program) else None
        if _trains(scope) or any(
            isinstance(each, ast.Attribute | ast.Subscript) and isinstance(each.ctx, ast.Store)
            for each in ast.walk(scope)
        ):
            return None
    return None


def _is_behind(reads: Sequence[tuple[Source, ast.AST]], program: Sequence[Source]) -> bool:
    """Whether the reads stand in functions, each of which is called somewhere and in no loop."""
    readers: set[str] = set()
    for source, node in reads:
        around = next((each for _, each in source.above(node) if isinstance(each, ast.FunctionDef)), None)
        if around is None:
            return False
        readers.add(around.name)
    calls = [
        (source, node)
        for source in program
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and call_name(node) in readers
    ]
    in_loops = any(isinstance(up, ast.For | ast.While) for source, call in calls for _, up in source.above(call))
    return {call_name(call) for _, call in calls} == readers and not in_loops and bool(readers)


def _writes(scope: ast.AST, source: Source) -> dict[ast.AST, Cause]:
    """The calls of a function that open a file to write it, or write into one."""
    handles: dict[str, Cause] = {}
    own = {*ast.walk(scope), *source.tree.body}
    for each in ast.walk(source.tree):
        for call, target in _openings(each):
            if (cause := _opens(call)) is not None and (each in own or isinstance(target, ast.Attribute)):
                handles |= dict.fromkeys(_names_of(target), cause)
    found: dict[ast.AST, Cause] = {}
    for call in (each for each in ast.walk(scope) if isinstance(each, ast.Call)):
        name, given = call_name(call), [*call.args, *(each.value for each in call.keywords)]
        base = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        used = set().union(*(_names_of(each) for each in (*given, *base)))
        into = next((handles[each] for each in sorted(used) if each in handles), None)
        cause = Cause.SAVE_IN_STEP if name in _WRITE_BYTES else Cause.LOGGING if name in _WRITE_TEXT else None
        if (cause := into or cause or _opens(call)) is not None:
            found[call] = cause
    return found


def _openings(node: ast.AST) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Calls, and what takes their values: of an assignment, of a with statement."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        yield node.value, node.targets[0]
    for each in node.items if isinstance(node, ast.With) else ():
        if isinstance(each.context_expr, ast.Call) and each.optional_vars is not None:
            yield each.context_expr, each.optional_vars


def _opens(call: ast.Call) -> Cause | None:
    """What is written into a file that the call opens; None where it opens none to be written."""
    if call_name(call) != "open":
        return None
    is_path = isinstance(call.func, ast.Attribute) and len(call.args) == 1
    given = [*(call.args if is_path else call.args[1:]), *(each.value for each in call.keywords if each.arg == "mode")]
    modes = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    written = next((mode for mode in modes if _MODE.fullmatch(mode)), None)
    return None if written is None else Cause.SAVE_IN_STEP if "b" in written else Cause.LOGGING


def _names_of(node: ast.AST) -> set[str]:
    """A name, or an attribute of the program's own object."""
    if isinstance(node, ast.Attribute):
        return {f"self.{node.attr}"} if isinstance(node.value, ast.Name) and node.value.id == "self" else set()
    return {node.id} if isinstance(node, ast.Name) else set()


def _only_written(statement: ast.stmt, scope: ast.AST, source: Source, writes: dict[ast.AST, Cause]) -> Cause | None:
    """What is written, where all that reads what a statement binds, or puts into a collection, writes it."""
    names = {each.id for each in _takers(statement)}
    taking = {each for one in ast.walk(scope) for each in _takers(one)}
    reads = [each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id in names]
    reads = [each for each in reads if isinstance(each.ctx, ast.Load) and each not in taking]
    into = [next((writes[up] for _, up in source.above(each) if up in writes), None) for each in reads]
    return into[0] if into and None not in into else None


def _takers(statement: ast.AST) -> Iterator[ast.Name]:
    """The names that take what a statement computes: by `=`, as a part, or by a method of theirs."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            base = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(base, ast.Name):
                yield base
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        method = statement.value.func
        if isinstance(method, ast.Attribute) and method.attr in _COLLECTS and isinstance(method.value, ast.Name):
            yield method.value


def _scored_at(users: Sequence[Instruction], sources: Sources, *, is_seldom: bool) -> Instruction | None:
    """The line of the function which trains that makes something of what a model computes, and does not use it.

    `is_seldom`: only where all that reads it shows it, under a condition within the loop, and nothing is written into.
    """
    for place in reversed(users):
        source = sources.of(place.file)
        above, statement, scope = _around(place, sources)
        if statement is None or not (made_of(_computed(scope, source), scope) & read_in(statement)):
            continue
        trained = reached_by(scope)
        kept = _kept_in(statement, source)
        if not trained or kept is None or kept & trained:
            return None
        loops = [each for each in above if isinstance(each, ast.For | ast.While)]
        loop = next((each for each in loops if each is not statement and _trains(each)), scope)
        loads = [*_loads(kept, scope if is_seldom else loop, statement)]
        is_below = bool(loads) and all(_is_below(each, loop, source) for each in loads)
        if is_seldom and (not is_below or _writes_into(statement)):
            return None
        return place if all(_is_shown(each, source) for each in loads) else None
    return None


def _writes_elsewhere(users: Sequence[Instruction], place: Instruction, sources: Sources) -> bool:
    """Whether a function between the innermost and that of `place` writes into what is neither its own nor `self`."""
    for inner in users[: users.index(place)]:
        _, _, scope = _around(inner, sources)
        stored = [
            each
            for each in ast.walk(scope)
            if isinstance(each, ast.Attribute | ast.Subscript) and isinstance(each.ctx, ast.Store)
        ]
        calls = [each.func for each in ast.walk(scope) if isinstance(each, ast.Call) and call_name(each).endswith("_")]
        if any("self" not in names_in(each) for each in (*stored, *calls)):
            return True
    return False


def _is_below(node: ast.AST, loop: ast.AST, source: Source) -> bool:
    """Whether a read stands under a condition within the loop."""
    above = [parent for _, parent in source.above(node)]
    return loop in above and any(isinstance(each, ast.If | ast.IfExp) for each in above[: above.index(loop)])


def _writes_into(statement: ast.stmt) -> bool:
    """Whether a call is named as those that change what they are given, or writes into what it is told to."""
    calls = [each for each in ast.walk(statement) if isinstance(each, ast.Call)]
    return any(call_name(call).endswith("_") or any(each.arg == "out" for each in call.keywords) for call in calls)


def _computed(scope: ast.AST, source: Source) -> set[str]:
    """The names that take what an object gives that is called, as a module is."""
    return {
        name
        for each in ast.walk(scope)
        if isinstance(each, ast.Assign)
        and any(isinstance(call, ast.Call) and source.is_object(call.func) for call in ast.walk(each.value))
        for target in each.targets
        for name in names_in(target)
    }


def _kept_in(statement: ast.stmt, source: Source) -> set[str] | None:
    """The names that have what a statement makes: what it binds, else what its call is a method of, of a module's
    function its first argument; None for others."""
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return bound_by(statement)
    if isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        of = names_in(call.func) if isinstance(call.func, ast.Attribute) else set()
        return names_in(call.args[0]) if of & source.modules and call.args else of
    return None


def _writes_into_given(place: Instruction, sources: Sources) -> bool:
    """Whether a collective writes into what the caller of its function gave that, as functions of torch's do.

    A method whose value is bound, ``gather`` of a library, gives what it got.
    """
    source = sources.of(place.file)
    above, statement, scope = _around(place, sources)
    call = next((each for each in above if isinstance(each, ast.Call)), None)
    if call is None or not isinstance(scope, ast.FunctionDef):
        return True
    if isinstance(statement, ast.Assign) and statement.value is call and not names_in(call.func) & source.modules:
        return False
    given = {each.arg for each in (*scope.args.args, *scope.args.kwonlyargs)}
    gotten = call.args[GOTTEN_AT.get(source.named(call), 0) :][:1]
    return bool(given & set().union(*(names_in(each) for each in gotten)))


def _trains(loop: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) and call_name(each) == "backward" for each in ast.walk(loop))


def _loads(names: set[str], loop: ast.AST, own: ast.stmt) -> Iterator[ast.Name]:
    """What reads the names, or what is made of them, in a loop, outside of a statement."""
    mine = {*ast.walk(own)}
    made = made_of(names, loop)
    for each in ast.walk(loop):
        if isinstance(each, ast.Name) and each.id in made and isinstance(each.ctx, ast.Load) and each not in mine:
            yield each


def _is_shown(node: ast.Name, source: Source) -> bool:
    """Whether a read shows or keeps a value, or makes another of it that has reads of its own."""
    for child, parent in source.above(node):
        if isinstance(parent, ast.Call) and (call_name(parent) in _SHOWS or _is_reset(parent, child)):
            return True
        if isinstance(parent, ast.stmt):
            return isinstance(parent, ast.Assign | ast.AugAssign) and not isinstance(parent.value, ast.Call)
    return False


def _is_reset(call: ast.Call, child: ast.AST) -> bool:
    return child is call.func and call_name(call) in ("clear", "reset", "compute")
