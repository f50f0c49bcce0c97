"""What of a program is done for its logs: texts that nobody is shown, and values for libraries that keep them. Pure.

[Note: logs of libraries]
A library of training or of tracking keeps what it is given (``self.log``, ``add_histogram``, ``wandb.log``): its work,
and what the program computes in the arguments of that call alone, is `logging`, at the line of the call. Such calls
are known by the package that the samples find inside them, not by their names.
"""

import ast
import re
from collections.abc import Sequence
from itertools import pairwise

from emberward.lens._samples import USER, Instruction, Sampled
from emberward.lens._source import LOG_LEVELS, WRITERS, Line, Source, Sources, call_name

_TRACKERS = "aim|clearml|comet_ml|dvclive|mlflow|neptune|swanlab|tensorboardX|trackio|wandb"
LIBRARY_LOGS: tuple[tuple[str, frozenset[str] | None], ...] = (
    (rf"-packages/({_TRACKERS})/|torch/utils/tensorboard/|/wandb/|lightning\w*/.*/loggers/", None),
    (r"lightning\w*/.*core/module\.py$", frozenset({"log", "log_dict"})),
    (r"accelerate/(tracking|accelerator)\.py$", frozenset({"log"})),
    (r"transformers/trainer\.py$", frozenset({"log"})),
)
"""Files and functions of libraries that keep or show values."""


def is_library_log(place: Instruction) -> bool:
    """Whether a function is a library's that keeps or shows what it is given."""
    return place.owner != USER and any(
        (functions is None or place.function in functions) and re.search(pattern, place.file)
        for pattern, functions in LIBRARY_LOGS
    )


def log_lines(stacks: Sequence[Sampled]) -> frozenset[Line]:
    """The program's lines that were seen to give something to a library's log."""
    return frozenset(
        (outer.file, outer.line)
        for sampled in stacks
        for inner, outer in pairwise(sampled.stack)
        if outer.owner == USER and is_library_log(inner)
    )


def given_to_a_log(users: Sequence[Instruction], sources: Sources, lines: frozenset[Line]) -> Instruction | None:
    """The frame in which an argument of a library's log is computed; None where there is none."""
    for place in users:
        source = sources.of(place.file)
        node = source.node_at(place) if any(file == place.file for file, _ in lines) else None
        for child, parent in source.above(node) if node is not None else ():
            if isinstance(parent, ast.stmt):
                break
            if isinstance(parent, ast.Call) and child is not parent.func:
                called = range(parent.lineno, (parent.end_lineno or parent.lineno) + 1)
                if any((place.file, line) in lines for line in called):
                    return place
    return None


def dropped_call(place: Instruction, sources: Sources, outputs: frozenset[Line]) -> ast.Call | None:
    """The debug call, in whose arguments the instruction stands, that never printed anything; None without one.

    Such a call goes to a logging method whose level is off, or to a function of the file that does nothing with
    what it is given but print or log it under a condition. `outputs` are the lines that did print or log.
    """
    source = sources.of(place.file)
    node = source.node_at(place)
    if node is None:
        return None
    for child, parent in source.above(node):
        if isinstance(parent, ast.stmt) and not isinstance(parent, ast.Assign | ast.Expr):
            return None
        if isinstance(parent, ast.Call) and child is not parent.func and _is_debug_call(source, parent):
            lines = range(parent.lineno, (parent.end_lineno or parent.lineno) + 1)
            return None if any((place.file, line) in outputs for line in lines) else parent
        if isinstance(parent, ast.Assign) and child is parent.value:
            return _dropped_variable(source, parent, place, outputs)
    return None


def _dropped_variable(
    source: Source, assign: ast.Assign, place: Instruction, outputs: frozenset[Line]
) -> ast.Call | None:
    """The debug call that alone uses the text which is assigned here."""
    target = assign.targets[0]
    is_text = any(isinstance(node, ast.JoinedStr) for node in ast.walk(assign.value))
    scope = next((p for _, p in source.above(assign) if isinstance(p, ast.FunctionDef | ast.Module)), None)
    if scope is None or not is_text or not isinstance(target, ast.Name):
        return None
    uses = [
        node
        for node in ast.walk(scope)
        if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load)
    ]
    calls = [source.parents.get(node) for node in uses]
    found = [call for call in calls if isinstance(call, ast.Call) and _is_debug_call(source, call)]
    if not found or len(found) != len(uses):
        return None
    lines = {line for call in found for line in range(call.lineno, (call.end_lineno or call.lineno) + 1)}
    return None if any((place.file, line) in outputs for line in lines) else found[0]


def _is_text(given: ast.expr) -> bool:
    return isinstance(given, ast.JoinedStr) or (isinstance(given, ast.Constant) and isinstance(given.value, str))


def _is_own(called: ast.Attribute) -> bool:
    return isinstance(called.value, ast.Name) and called.value.id == "self"


def _is_debug_call(source: Source, call: ast.Call) -> bool:
    name = call_name(call)
    if isinstance(call.func, ast.Attribute) and name in LOG_LEVELS:
        # ``log`` of a logger is given a level first; that of a library is given a name, or all values at once.
        return name != "log" or (len(call.args) > 1 and not _is_text(call.args[0]) and not _is_own(call.func))
    found = source.defined(name)
    return found is not None and only_prints(*found)


def only_prints(function: ast.FunctionDef, source: Source) -> bool:
    """Whether a function does nothing with its texts but print or log them, and that under a condition."""
    names = {arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)} - {"self"}
    if function.args.vararg is not None:
        names.add(function.args.vararg.arg)
    has_condition = any(isinstance(node, ast.If) for node in ast.walk(function))
    writes = []
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
            above = [parent for _, parent in source.above(node)]
            is_test = any(
                isinstance(parent, ast.If) and any(node is each for each in ast.walk(parent.test)) for parent in above
            )
            call = next((parent for parent in above if isinstance(parent, ast.Call)), None)
            if is_test:
                continue
            if call is None or call_name(call) not in WRITERS:
                return False
            writes.append(call)
    is_logged = all(call_name(call) in LOG_LEVELS for call in writes)
    return bool(writes) and (has_condition or is_logged)
