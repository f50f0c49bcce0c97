"""Which functions of a program only write, read or talk to a service, so that a sleep in them is that. Pure.

A retry, a limit of a rate, a service that a test plays: the thread sleeps, and what it sleeps for is the function's.
What a function does to files beside a save, it does for the save.
"""

import ast
from collections.abc import Sequence
from dataclasses import replace

from emberward.findings import Cause
from emberward.lens._samples import Instruction
from emberward.lens._source import Source, Sources, call_name
from emberward.lens._unused import MAX_DEPTH

OF_SERVICES = {
    "fsync": Cause.LOGGING,
    "flush": Cause.LOGGING,
    "write": Cause.LOGGING,
    "writelines": Cause.LOGGING,
    "writerow": Cause.LOGGING,
    "print": Cause.PRINT,
    "add_scalar": Cause.LOGGING,
    "read": Cause.FILE_READ,
    "readline": Cause.FILE_READ,
    "readlines": Cause.FILE_READ,
    "read_text": Cause.FILE_READ,
    "read_bytes": Cause.FILE_READ,
    "fromfile": Cause.FILE_READ,
    "recv": Cause.NETWORK_IO,
    "send": Cause.NETWORK_IO,
    "sendall": Cause.NETWORK_IO,
    "connect": Cause.NETWORK_IO,
    "urlopen": Cause.NETWORK_IO,
}
"""Calls that write a log, read a file or talk to the network, by name."""
_MOVES = frozenset({"replace", "rename", "fsync", "unlink", "remove", "link", "move", "copyfile", "rmtree"})
_SAVES = frozenset({"save", "save_file", "save_model", "savez", "savez_compressed", "dump", "save_pretrained"})
_BESIDE_THEM = frozenset(
    {
        "append", "clear", "close", "decode", "dumps", "encode", "extend", "fileno", "float", "format", "get", "int",
        "isoformat", "items", "join", "len", "map", "monotonic", "open", "perf_counter", "pop", "range", "repr",
        "round", "seek", "sleep", "socket", "sorted", "str", "strftime", "strip", "time", "tuple", "list", "values",
    }
)  # fmt: skip
"""Calls that such functions make besides."""


def save_beside(place: Instruction, sources: Sources) -> str | None:
    """The line of the save for which the instruction's function writes, moves or removes a file; None for no save."""
    if sources.called(place) not in _MOVES:
        return None
    source = sources.of(place.file)
    node = source.node_at(place)
    above = source.above(node) if node is not None else ()
    function = next((each for _, each in above if isinstance(each, ast.FunctionDef)), source.tree)
    calls = (each for each in ast.walk(function) if isinstance(each, ast.Call) and call_name(each) in _SAVES)
    line = min((each.lineno for each in calls), default=None)
    return None if line is None else replace(place, line=line).site


def service_of(users: Sequence[Instruction], sources: Sources) -> tuple[Cause, Instruction] | None:
    """What the outermost function that does nothing else is for, and the line that calls it; None without one.

    `users`: frames of the program from the innermost on; the last one's function is the loop's and calls the others.
    """
    for index in range(len(users) - 2, -1, -1):
        source = sources.of(users[index].file)
        node = source.node_at(users[index])
        above = source.above(node) if node is not None else ()
        function = next((each for _, each in above if isinstance(each, ast.FunctionDef)), None)
        kinds = None if function is None else _kinds(function, source, 0)
        if kinds is not None and len(kinds) == 1:
            return next(iter(kinds)), users[index + 1]
    return None


def _kinds(function: ast.FunctionDef, source: Source, depth: int) -> set[Cause] | None:
    """The services that a function uses; None where it does something else too."""
    found: set[Cause] = set()
    for call in (each for statement in function.body for each in ast.walk(statement) if isinstance(each, ast.Call)):
        name = call_name(call)
        own = source.defined(name)
        if own is not None and own[0] is not function and depth < MAX_DEPTH:
            inner = _kinds(*own, depth + 1)
            if inner is None:
                return None
            found |= inner
        elif (cause := OF_SERVICES.get(name)) is not None:
            found.add(cause)
        elif name not in _BESIDE_THEM:
            return None
    return found
