"""Which statements compute what nobody reads, from the text of their program. Pure."""

import ast

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
