"""Which statements compute what nobody reads, from the text of their program. Pure."""

import ast
import re
from collections.abc import Callable, Sequence

from emberward.lens._samples import Instruction
from emberward.lens._source import WRITERS, Line, Source, Sources, call_name, names_in

READERS = frozenset(
    {
        "abs", "all", "allclose", "amax", "amin", "any", "argmax", "argmin", "argsort", "bincount", "bmm", "bool",
        "buffers", "ceil", "children", "chunk", "clamp", "clip", "clone", "contiguous", "corrcoef", "cos",
        "count_nonzero", "cov", "cpu", "cross", "cumprod", "cumsum", "det", "detach", "diag", "diagonal", "dict",
        "diff", "div", "dot", "double", "einsum", "enumerate", "eq", "equal", "erf", "exp", "expand", "flatten",
        "flip", "float", "floor", "fmod", "ge", "gt", "half", "histc", "inner", "int", "inverse", "isclose",
        "isfinite", "isinf", "isnan", "item", "items", "keys", "kthvalue", "le", "len", "list", "log", "log1p",
        "log2", "log_softmax", "logical_and", "logical_not", "logical_or", "logsumexp", "lt", "lu", "matmul",
        "max", "mean", "median", "min", "mm", "mode", "modules", "movedim", "mul", "mv", "named_parameters",
        "nanmean", "narrow", "ne", "neg", "nonzero", "norm", "numel", "numpy", "outer", "parameters", "permute",
        "pinverse", "pow", "prod", "quantile", "range", "relu", "repeat", "repeat_interleave", "repr", "reshape",
        "roll", "round", "rsqrt", "searchsorted", "sigmoid", "sign", "sin", "size", "softmax", "sort", "sorted",
        "split", "sqrt", "square", "squeeze", "std", "str", "sub", "sum", "svd", "t", "take", "tanh", "tile", "to",
        "tolist", "topk", "trace", "transpose", "tril", "triu", "tuple", "unbind", "unflatten", "unfold", "unique",
        "unsqueeze", "values", "var", "var_mean", "view", "where", "zip",
    }
)  # fmt: skip
"""Methods and built-in functions that only read what they are given."""
_KEEPS = ("append", "appendleft", "add", "extend")
"""Methods by which a value is kept in a list, a queue or a set."""
_LIBRARIES = frozenset({"torch", "F", "functional", "math", "np", "numpy", "linalg"})


def unused_at(users: Sequence[Instruction], sources: Sources, outputs: frozenset[Line]) -> Instruction | None:
    """The frame of `users`, from the innermost on, in which what they compute is dropped; None where it is used.

    A statement that only reads gives its value to a name, an attribute, a list or the caller, and nobody reads it
    there, or only in a branch that is not taken in each step. It calls functions of torch's that change nothing,
    methods that read a tensor, and functions of the program that do no more. A call whose value is given to nothing is
    taken to do what it is called for.
    """
    key = tuple((place.file, place.line, place.column) for place in users)
    if key not in sources.unused:
        found = [_dropped_at(index, users, sources, outputs) for index in range(len(users))]
        sources.unused[key] = next((each for each in reversed(found) if each is not None), None)
    at = sources.unused[key]
    return None if at is None else users[at]


def _dropped_at(index: int, users: Sequence[Instruction], sources: Sources, outputs: frozenset[Line]) -> int | None:
    """Of a statement that only reads: the frame that drops its value."""
    source = sources.of(users[index].file)
    node = source.node_at(users[index])
    above = [] if node is None else [node, *(parent for _, parent in source.above(node))]
    statement = next((each for each in above if isinstance(each, ast.stmt)), None)
    if not isinstance(statement, ast.Assign | ast.Expr | ast.Return) or statement.value is None:
        return None
    kept = kept_in(statement.value) if isinstance(statement, ast.Expr) else None
    if isinstance(statement, ast.Expr) and kept is None:
        return None
    if not _only_reads(statement.value if kept is None else kept[1], source, 0):
        return None
    if kept is not None:
        return None if _is_ever_read(kept[0], source, _program(users, sources)) else index
    if isinstance(statement, ast.Assign):
        return _by_targets(statement, index, users, sources, outputs)
    return _by_caller(index + 1, users, sources, outputs)


def _by_targets(
    statement: ast.Assign, index: int, users: Sequence[Instruction], sources: Sources, outputs: frozenset[Line]
) -> int | None:
    """Where what a statement binds is read nowhere, the frame of that."""
    source = sources.of(users[index].file)
    targets = [each for target in statement.targets for each in getattr(target, "elts", [target])]
    attributes = [each for each in targets if isinstance(each, ast.Attribute)]
    if attributes:
        program = _program(users, sources)
        is_read = attributes != targets or any(_is_ever_read(each, source, program) for each in attributes)
        return None if is_read else index
    scope = next((each for _, each in source.above(statement) if isinstance(each, ast.FunctionDef | ast.Module)), None)
    names = {each.id for each in targets if isinstance(each, ast.Name)}
    if scope is None or len(names) != len(targets) or names & _declared(scope):
        return None
    program = _program(users, sources)

    def drops(other: ast.Assign | ast.Expr) -> bool:
        if isinstance(other, ast.Expr):
            kept = kept_in(other.value)
            return kept is not None and not _is_ever_read(kept[0], source, program)
        return all(isinstance(t, ast.Attribute) and not _is_ever_read(t, source, program) for t in other.targets)

    reads = _reads(names, scope, statement, source, drops)
    reads = [each for each in reads if not _is_for_some_steps(each, source, outputs)]
    if not all(isinstance(each, ast.Return) for each in reads):
        return None
    return _by_caller(index + 1, users, sources, outputs) if reads else index


def _declared(scope: ast.AST) -> set[str]:
    """Names that belong to another function, or to the module."""
    return {name for each in ast.walk(scope) if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names}


def _by_caller(index: int, users: Sequence[Instruction], sources: Sources, outputs: frozenset[Line]) -> int | None:
    """Where the caller drops what it is given, its frame, or that of its caller."""
    if index >= len(users):
        return None
    source = sources.of(users[index].file)
    node = source.node_at(users[index])
    above = [] if node is None else [node, *(parent for _, parent in source.above(node))]
    call = next((each for each in above if isinstance(each, ast.Call)), None)
    statement = None if call is None else source.parents.get(call)
    if isinstance(statement, ast.Return):
        return _by_caller(index + 1, users, sources, outputs)
    return _by_targets(statement, index, users, sources, outputs) if isinstance(statement, ast.Assign) else None


def kept_in(value: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The list to which a value is appended, and the value."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and len(value.args) == 1:
        return (value.func.value, value.args[0]) if value.func.attr in _KEEPS else None
    return None


def _program(users: Sequence[Instruction], sources: Sources) -> list[Source]:
    return sources.program(place.file for place in users)


def _is_ever_read(kept: ast.expr, source: Source, program: Sequence[Source]) -> bool:
    """Whether any file of the program reads an attribute, or this one a name, but to add to it or to empty it.

    An attribute that no class of the program has is a library's, which may read it, as an optimizer reads ``grad``.
    """
    if isinstance(kept, ast.Attribute) and not _is_own(kept, program):
        return True
    return not isinstance(kept, ast.Attribute | ast.Name) or bool(reads_of(kept, source, program))


def _is_own(kept: ast.Attribute, program: Sequence[Source]) -> bool:
    return _is_of_self(kept) or any(
        isinstance(each, ast.ClassDef) and _declares(each, kept.attr)
        for source in program
        for each in ast.walk(source.tree)
    )


def _is_of_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _declares(kind: ast.ClassDef, name: str) -> bool:
    """Whether a class gives its objects an attribute, in its body or by one of its methods."""
    in_body = [
        target
        for each in kind.body
        if isinstance(each, ast.Assign | ast.AnnAssign)
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
    ]
    return any(isinstance(each, ast.Name) and each.id == name for each in in_body) or any(
        isinstance(each, ast.Attribute) and each.attr == name and isinstance(each.ctx, ast.Store) and _is_of_self(each)
        for each in ast.walk(kind)
    )


def reads_of(kept: ast.Attribute | ast.Name, source: Source, program: Sequence[Source]) -> list[tuple[Source, ast.AST]]:
    """What reads an attribute in any file of the program, or a name in this one, but to add to it or to empty it."""
    name = kept.attr if isinstance(kept, ast.Attribute) else kept.id
    files = program if isinstance(kept, ast.Attribute) else [source]
    loads = [
        (each, node)
        for each in files
        for node in ast.walk(each.tree)
        if (isinstance(node, ast.Attribute) and node.attr == name)
        or (isinstance(node, ast.Name) and node.id == name)
        or (isinstance(node, ast.Constant) and node.value == name)
        or (isinstance(node, ast.Call) and call_name(node) in ("vars", "getattr", "register_buffer"))
    ]
    return [
        (each, node)
        for each, node in loads
        if not isinstance(getattr(node, "ctx", None), ast.Store)
        and not (isinstance(parent := each.parents.get(node), ast.Attribute) and parent.attr in (*_KEEPS, "clear"))
    ]


def _is_for_some_steps(read: ast.stmt | None, source: Source, outputs: frozenset[Line]) -> bool:
    """Whether a read stands in a branch for every N steps, or in one whose ``print`` or log nobody has seen."""
    if not isinstance(read, ast.If) or _asks_for_rank(read.test):
        return False
    if any(isinstance(each, ast.Mod) for each in ast.walk(read.test)):
        return True
    writes = [each for each in ast.walk(read) if isinstance(each, ast.Call) and call_name(each) in WRITERS]
    lines = {(source.file, line) for call in writes for line in range(call.lineno, (call.end_lineno or 0) + 1)}
    return bool(writes) and not lines & outputs


def _only_reads(node: ast.AST, source: Source, depth: int) -> bool:
    """Whether all calls in the node change nothing."""
    for each in ast.walk(node):
        if isinstance(each, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            return False
        if not isinstance(each, ast.Call):
            continue
        name, of = call_name(each), each.func
        base = of.value if isinstance(of, ast.Attribute) else None
        library = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
        if name in READERS or (library in _LIBRARIES and not name.endswith("_")):
            continue
        found = source.defined(name)
        if found is None or depth >= MAX_DEPTH or not _is_reader(*found, depth):
            return False
    return True


MAX_DEPTH = 3
"""Functions of the program that are followed into one another."""


def _is_reader(function: ast.FunctionDef, source: Source, depth: int) -> bool:
    own = {arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)}
    for each in ast.walk(function):
        if isinstance(each, ast.Global | ast.Nonlocal | ast.Delete | ast.Raise):
            return False
        if isinstance(each, ast.Attribute | ast.Subscript) and isinstance(each.ctx, ast.Store):
            return False
        if isinstance(each, ast.AugAssign) and names_in(each.target) & own:
            return False
    return all(_only_reads(each, source, depth + 1) for each in function.body)


def is_result_kept_from_all(users: Sequence[Instruction], sources: Sources) -> bool:
    """Whether what a collective writes into its argument is read nowhere, or only where a condition holds.

    `users`: the program's frames from that of the call on. A value that a function gives to its caller is the caller's.
    A condition on the rank holds on one of them in each step.
    """
    names: set[str] = set()
    for index, place in enumerate(users):
        source = sources.of(place.file)
        node = source.node_at(place)
        above = [] if node is None else [node, *(parent for _, parent in source.above(node))]
        statement = next((each for each in above if isinstance(each, ast.stmt)), None)
        scope = next((each for each in above if isinstance(each, ast.FunctionDef)), None)
        call = next((each for each in above if isinstance(each, ast.Call)), None)
        if statement is None or scope is None or call is None:
            return False
        if index == 0:
            gotten = call.args[GOTTEN_AT.get(call_name(call), 0) :][:1]
            names = names_in(gotten[0]) if gotten else set()
        elif isinstance(statement, ast.Assign) and statement.value is call:
            names = {name for target in statement.targets for name in names_in(target)}
        else:
            return isinstance(statement, ast.Expr) and statement.value is call
        reads = _reads(names, scope, statement, source)
        if not names or any(each is None for each in reads):
            return False
        if not any(isinstance(each, ast.Return) for each in reads):
            return True
    return False


def _reads(
    names: set[str],
    scope: ast.AST,
    own: ast.stmt,
    source: Source,
    drops: Callable[[ast.Assign | ast.Expr], bool] = lambda other: False,
) -> list[ast.stmt | None]:
    """For each read of the names, or of what is computed from them: the branch or return that it stands in, or None.

    `drops`: whether a statement gives what it reads to nobody.
    """
    found: list[ast.stmt | None] = []
    made, size = set(names), -1
    while size != len(made):
        size = len(made)
        for each in (node for node in ast.walk(scope) if isinstance(node, ast.Assign) and node is not own):
            is_made = made & names_in(each.value) and all(isinstance(target, ast.Name) for target in each.targets)
            made |= {name for target in each.targets for name in names_in(target)} if is_made else set()
    for node in ast.walk(scope):
        if not (isinstance(node, ast.Name) and node.id in made and isinstance(node.ctx, ast.Load)):
            continue
        statement: ast.stmt | None = None
        for child, parent in source.above(node):
            is_of_own = isinstance(parent, ast.Assign) and made & names_in(parent.targets[0])
            if parent is own or is_of_own or (isinstance(parent, ast.Assign | ast.Expr) and drops(parent)):
                break
            is_branch = isinstance(parent, ast.If) and child is not parent.test and not _asks_for_rank(parent.test)
            if isinstance(parent, ast.Return) or (isinstance(parent, ast.If) and is_branch):
                statement = parent
            if parent is scope:
                found.append(statement)
                break
    return found


GOTTEN_AT = {"gather": 1, "gather_object": 1}
"""Of collectives that do not write into their first argument: into which."""
_RANKS = re.compile(r"rank|main|master|chief|leader|primary|root", re.IGNORECASE)


def _asks_for_rank(test: ast.expr) -> bool:
    """Whether a test holds on one of the ranks in each step: it asks for the rank, and for nothing else besides."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return all(_asks_for_rank(each) for each in test.values)
    names = names_in(test) | {each.attr for each in ast.walk(test) if isinstance(each, ast.Attribute)}
    return any(_RANKS.search(name) for name in names)
