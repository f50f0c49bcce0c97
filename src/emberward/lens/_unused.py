"""Which statements compute what nobody reads, from the text of their program. Pure."""

import ast
from collections.abc import Sequence

from emberward.lens._samples import Instruction
from emberward.lens._source import Source, Sources, call_name, names_in

READERS = frozenset(
    {
        "abs",
        "all",
        "any",
        "argmax",
        "argmin",
        "bool",
        "clone",
        "cpu",
        "cumsum",
        "detach",
        "enumerate",
        "eq",
        "exp",
        "flatten",
        "float",
        "ge",
        "gt",
        "int",
        "isfinite",
        "isnan",
        "item",
        "le",
        "len",
        "list",
        "log",
        "log_softmax",
        "lt",
        "matmul",
        "max",
        "mean",
        "median",
        "min",
        "named_parameters",
        "ne",
        "nonzero",
        "norm",
        "numel",
        "numpy",
        "parameters",
        "quantile",
        "range",
        "reshape",
        "size",
        "softmax",
        "sort",
        "sorted",
        "sqrt",
        "square",
        "std",
        "sum",
        "to",
        "tolist",
        "topk",
        "tuple",
        "unique",
        "values",
        "var",
        "view",
        "zip",
    }
)
"""Methods and built-in functions that only read what they are given."""
_LIBRARIES = frozenset({"torch", "F", "functional", "math", "np", "numpy", "linalg"})


def is_unused(place: Instruction, sources: Sources) -> bool:
    """Whether the instruction's statement assigns what is read nowhere, and does nothing else.

    It calls functions of torch's that change nothing, methods that read a tensor, and functions of the same file
    that do no more. A value that is read in the function at all, be it after the loop, is used.
    """
    key = place.file, place.line
    if key not in sources.unused:
        source = sources.of(place.file)
        sources.unused[key] = _assigns_unused(source, source.node_at(place))
    return sources.unused[key]


def _assigns_unused(source: Source, node: ast.AST | None) -> bool:
    above = [] if node is None else [node, *(parent for _, parent in source.above(node))]
    statement = next((each for each in above if isinstance(each, ast.stmt)), None)
    scope = next((each for each in above if isinstance(each, ast.FunctionDef | ast.Module)), None)
    if scope is None or not isinstance(statement, ast.Assign) or not _only_reads(statement.value, source, 0):
        return False
    if not all(isinstance(target, ast.Name) for target in statement.targets):
        return False
    names = {name for target in statement.targets for name in names_in(target)}
    own = {id(each) for each in ast.walk(statement)}
    is_declared = any(isinstance(each, ast.Global | ast.Nonlocal) and names & {*each.names} for each in ast.walk(scope))
    return not is_declared and not any(
        isinstance(each, ast.Name) and each.id in names and isinstance(each.ctx, ast.Load) and id(each) not in own
        for each in ast.walk(scope)
    )


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
        function = source.function(name)
        if function is None or depth >= MAX_DEPTH or not _is_reader(function, source, depth):
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
    """Whether what a call writes into its first argument is read nowhere, or only where a condition holds.

    `users`: the program's frames from that of the call on. A value that a function gives to its caller is the caller's.
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
            names = names_in(call.args[0]) if call.args else set()
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


def _reads(names: set[str], scope: ast.FunctionDef, own: ast.stmt, source: Source) -> list[ast.stmt | None]:
    """For each read of the names, or of what is computed from them: the branch or return that it stands in, or None."""
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
            if parent is own or (isinstance(parent, ast.Assign) and made & names_in(parent.targets[0])):
                break
            if isinstance(parent, ast.Return) or (isinstance(parent, ast.If) and child is not parent.test):
                statement = parent
            if parent is scope:
                found.append(statement)
                break
    return found
