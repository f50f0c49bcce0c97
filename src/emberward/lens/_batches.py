"""Batches that a program makes in its loop, in Python. Pure.

[Note: batches made in the loop]
What Python, or a library that knows no tensors (PIL, tokenizers, json), does in the training loop for values that the
loss is computed from, a worker could have done before: it is `data_wait`, as what a loader does in the training
process is. It is a source of data and no part of the model where nothing that a module computed in the loop goes into
it. Operations of torch's, and calls that are not known to be Python's own, are the step's work: what was seen at a
line says that ([Note: lines without tensors]), else its text. A method of an object may be a model's, unless its class
is written in the program and is none of a module's; what a function without a part of the model does, it does for what
it gives its caller.
"""

import ast
from collections.abc import Mapping, Sequence
from itertools import takewhile

from emberward.lens._samples import USER, Instruction
from emberward.lens._source import Line, Source, Sources, call_name, made_of, names_in, read_in
from emberward.lens._tensors import MAX_PLAIN, WITHOUT_TENSORS, is_plain

_LIBRARIES = frozenset({"Image", "ImageFilter", "ImageOps", "csv", "cv2", "json", "np", "numpy", "random", "re", "rng"})
_OF_TEXTS = frozenset(
    {
        "casefold", "encode", "encode_batch", "findall", "join", "ljust", "lower", "replace", "split", "startswith",
        "strip", "sub", "tokenize",
    }
)  # fmt: skip
_METHODS = frozenset({"append", "extend", "get", "items", "keys", "setdefault", "update"})
_FUNCTIONS = frozenset(
    {
        "Counter",
        "dict",
        "enumerate",
        "isinstance",
        "len",
        "list",
        "open",
        "range",
        "set",
        "sorted",
        "str",
        "tuple",
        "zip",
    }
)  # fmt: skip
"""Methods that no tensor has, and functions that do nothing with the numbers of one."""
_MAKES = (
    ast.ListComp
    | ast.SetComp
    | ast.DictComp
    | ast.GeneratorExp
    | ast.JoinedStr
    | ast.Dict
    | ast.List
    | ast.Tuple
    | ast.Set
)
_OF_BYTECODE = ("BUILD_", "JUMP_BACKWARD", "LIST_APPEND", "MAP_ADD", "RESUME", "SET_ADD", "STORE_FAST", "UNPACK_")
"""Instructions that compute nothing with a tensor."""
MOST = 0.5
"""From which share on the program's own part of a line is what it does around its tensors, as to free old ones."""
_NO_MODULES = frozenset({"ABC", "Dataset", "Generic", "IterableDataset", "Iterator", "Protocol", "Sampler", "object"})
"""Bases of classes that are no modules."""


Shares = Mapping[Line, float]
"""Of lines of the program, what of their time is spent with tensors."""


def batch_at(frames: Sequence[Instruction], sources: Sources, shares: Shares) -> Instruction | None:
    """The line that binds what Python makes there for the loss; None where it does something else."""
    users = [place for place in frames if place.owner == USER]
    if not users or not is_of_python(frames, sources, shares):
        return None
    if any(_is_of_model(place, inner, sources, shares) for inner, place in zip((None, *users), users, strict=False)):
        return None
    return sources.fed_at(users, is_from_source=True)


def is_of_python(frames: Sequence[Instruction], sources: Sources, shares: Shares) -> bool:
    """Whether the thread is in Python's own work there, or in a library's that has no tensors."""
    if any("/torch/" in place.file for place in frames):
        return False
    inside = list(takewhile(lambda place: place.owner != USER, frames))
    share = next((shares.get((place.file, place.line)) for place in frames if place.owner == USER), None)
    if share is not None and (share < MAX_PLAIN or (share > MOST and not inside)):
        return share < MAX_PLAIN
    if any("-packages/" in place.file and not WITHOUT_TENSORS.search(place.file) for place in inside):
        return False
    if inside:
        return True
    leaf = frames[0]
    if leaf.operation.startswith(_OF_BYTECODE):
        return True
    node = sources.of(leaf.file).node_at(leaf)
    if not isinstance(node, ast.Call):
        return isinstance(node, _MAKES)
    return _is_known(node)


def _is_known(call: ast.Call) -> bool:
    """Whether what is called has to do with no tensor."""
    base = call.func.value if isinstance(call.func, ast.Attribute) else None
    library = base.id if isinstance(base, ast.Name) else ""
    known = _METHODS | _OF_TEXTS if base is not None else _FUNCTIONS
    return call_name(call) in known or library in _LIBRARIES


def _is_of_object(call: ast.Call, source: Source) -> bool:
    """Whether an object is called, as a module is, or a method of one that may be a module."""
    base = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_method = base is not None and source.is_object(base) and not _is_known(call)
    return is_method or source.is_object(call.func)


def _is_of_model(place: Instruction, inner: Instruction | None, sources: Sources, shares: Shares) -> bool:
    """Whether the instruction's statement uses what a module, or another object that is called, has computed there.

    Or whether the method `inner` that it calls may be a module's.
    """
    source = sources.of(place.file)
    node = source.node_at(place)
    above = [] if node is None else [node, *(parent for _, parent in source.above(node))]
    statement = next((each for each in above if isinstance(each, ast.stmt)), None)
    scope = next((each for each in above if isinstance(each, ast.FunctionDef | ast.Module)), None)
    if statement is None or scope is None:
        return True
    computed = {
        name
        for each in ast.walk(scope)
        if isinstance(each, ast.Assign)
        and any(isinstance(call, ast.Call) and _is_of_object(call, source) for call in ast.walk(each.value))
        and not is_plain([(place.file, line) for line in range(each.lineno, (each.end_lineno or 0) + 1)], shares)
        for target in each.targets
        for name in names_in(target)
    }
    calls = (each for each in ast.walk(statement) if isinstance(each, ast.Call))
    if inner is not None and any(_is_of_object(each, source) for each in calls) and _may_be_module(inner, sources):
        return True
    used = read_in(statement.iter if isinstance(statement, ast.For) else statement)
    return bool(computed and made_of(computed, scope) & used)


def _may_be_module(place: Instruction, sources: Sources) -> bool:
    """Whether the instruction's function is a method of a class that others than plain ones are bases of."""
    source = sources.of(place.file)
    node = source.node_at(place)
    above = source.above(node) if node is not None else ()
    around = next((each for _, each in above if isinstance(each, ast.ClassDef)), None)
    bases = [] if around is None else around.bases
    names = (each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "Generic") for each in bases)
    return any(name not in _NO_MODULES for name in names)
