"""What the call at a line of the program is, by what its names stand for: imports, constructors, annotations.

[Note: names prove nothing]
``nap(5)`` sleeps when the file says ``from time import sleep as nap``, and ``store.get(key)`` waits for the rendezvous
store when `store` was made by one of torch's constructors, whatever it is called. So a name is followed to its import,
or to what it was assigned from, within its file. What cannot be followed is judged by the method alone, and only where
a call without a Python frame of its own can be one thing: an ``acquire`` or a bare ``with``, a ``wait`` (of a
communication's work: those of threads and processes have frames), a ``get`` with a key (of a store).
"""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from emberward.diagnose._bindings import Bindings, bindings_of
from emberward.diagnose._handlers import tries_lock
from emberward.diagnose._program import ProgramLine, calls_in, covers, place_in, tree_of
from emberward.events import HostState
from emberward.findings import Cause

_C10D = r"torch\.distributed\.(?:distributed_c10d\.)?"
_MADE = r"\(\)(?:\[\])?"
_STATES = tuple(
    (state, re.compile(pattern))
    for state, pattern in (
        (HostState.SLEEP, r"^(?:time|asyncio)\.sleep$"),
        (HostState.GC, r"^gc\.collect$"),
        (HostState.STORE_WAIT, rf"^{_C10D}(?:\w*Store|_get_default_store)(?:\(\)\.(?:get|wait|check|multi_get))?$"),
        (
            HostState.P2P,
            rf"^{_C10D}(?:send|recv|isend|irecv|batch_isend_irecv|\w+_object_list)(?:{_MADE}\.wait)?$",
        ),
        (
            HostState.COLLECTIVE,
            rf"^{_C10D}(?!get_|is_)\w+(?:{_MADE}\.wait)?$|^torch\.distributed\.(?:nn|_functional_collectives)\."
            r"|^\?\.wait$",
        ),
        (HostState.SUBPROCESS, r"^subprocess\.|^os\.(?:system|wait\w*|popen)$"),
        (HostState.CHECKPOINT_IO, r"^torch\.save$|\.save_file$|^os\.f(?:data)?sync$|^torch\.distributed\.checkpoint\."),
        (
            HostState.NETWORK,
            r"^(?:socket|ssl|urllib|urllib3|requests|httpx|http)\.|^(?:\w+\.)?(?:\w+\(\)\.)?"
            r"(?:recv_into|recvfrom|sendall|urlopen|getaddrinfo)$|^\?\.(?:recv|accept|connect)$",
        ),
        (
            HostState.FILE_READ,
            r"^open$|^io\.open|^os\.(?:read|open|readv|pread)$|^(?:numpy|torch)\.load$|^(?:os\.fd)?open\(\)\.|^\?\.read\w*$"
            r"|^pathlib\.Path\(\)\.(?:open|read_\w+)$|^input$",
        ),
        (
            HostState.LOCK,
            r"^(?:threading|multiprocessing|_thread|queue)\.\w+\(\)(?:\.(?:acquire|wait|get|put|join|__enter__))$"
            r"|^fcntl\.(?:flock|lockf)$|^\?\.(?:acquire|__enter__|get)$",
        ),
        (HostState.DEVICE_SYNC, r"\.(?:item|tolist|cpu|synchronize)$"),
    )
)


_ASKED = tuple(
    (cause, re.compile(pattern))
    for cause, pattern in (
        (
            Cause.FILE_READ,
            r"^(?:os\.path|pathlib\.Path\(\)|\?)\.(?:exists|is_?(?:file|dir))$|^os\.(?:path\.get\w+|stat|access|listdir|scandir)$"
            r"|^glob\.i?glob$|^pathlib\.Path\(\)\.(?:stat|r?glob|iterdir)$",
        ),
        (Cause.STORE_WAIT, rf"^{_C10D}(?:\w*Store|_get_default_store)\(\)\.check$"),
        (Cause.SUBPROCESS, r"^subprocess\.Popen\(\)\.poll$|^os\.waitpid$"),
    )
)
"""What a program that sleeps in a loop waits for, by what it asks there without waiting."""


@lru_cache(maxsize=1024)
def state_at(text: str | None, line: str | None, number: int) -> HostState | None:
    """What a process is in at line `number` of `text`, or at `line` where no whole text is at hand; None if unclear."""
    if text is not None and (tree := tree_of(text)) is not None:
        return _state(tree, number)
    if line is None:
        return None
    bare = line.strip()
    for form in (bare, f"{bare}\n    pass", f"{bare})", f"({bare}"):
        tree = tree_of(form)
        if tree is not None:
            return _state(tree, 1)
    return None


@lru_cache(maxsize=1024)
def does_save(text: str | None, number: int) -> bool:
    """Whether the function around a line has begun to write a checkpoint there, and does not train."""
    place = None if text is None else place_in(text, number)
    if place is None or place.home is None:
        return False
    names, calls = bindings_of(place.tree), calls_in(place.home)
    # A loop around the line, or a ``with`` that is entered at it.
    around = [*place.loops, *(step.stmt for step in place.steps[-1:])]
    begun = [call for call in calls if call.lineno <= number or any(covers(each, call.lineno) for each in around)]
    states = {_state_of(names.of(call.func)) for call in calls}
    trains = any(isinstance(call.func, ast.Attribute) and call.func.attr == "backward" for call in calls)
    is_saving = HostState.CHECKPOINT_IO in {_state_of(names.of(call.func)) for call in begun}
    return is_saving and not trains and HostState.COLLECTIVE not in states


def polled_at(place: ProgramLine | None) -> Cause | None:
    """What a loop around a place asks for in each turn, as one does that sleeps in between; None where unclear."""
    if place is None or not place.loops:
        return None
    if tries_lock(place):
        return Cause.LOCK
    loop, names = place.loops[0], bindings_of(place.tree)
    tests = [node.test for stmt in loop.body for node in ast.walk(stmt) if isinstance(node, ast.If)]
    tests += [loop.test] if isinstance(loop, ast.While) else []
    asked = [names.of(call).removesuffix("()") for test in tests for call in calls_in(test)]
    return next((cause for cause, pattern in _ASKED if any(map(pattern.search, asked))), None)


def _state(tree: ast.Module, number: int) -> HostState | None:
    names = bindings_of(tree)
    found = [_state_of(name) for name in _waited_at(tree, names, number)]
    return next((state for state, _ in _STATES if state in found), None)


def _waited_at(tree: ast.Module, names: Bindings, number: int) -> Iterator[str]:
    """What is called at a line, as dotted names, and what is entered there by ``with``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and covers(node, number):
            name = names.of(node.func)
            method = node.func.attr if isinstance(node.func, ast.Attribute) else None
            # Of a mapping's get, which never waits, only the key is known: one that waits is a store's.
            is_keyed = method == "get" and bool(node.args) and name == "?.get"
            yield f"{'torch.distributed.Store().get' if is_keyed else name}"
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if covers(item.context_expr, number) and not isinstance(item.context_expr, ast.Call):
                    yield "?.__enter__"


def _state_of(name: str) -> HostState | None:
    return next((state for state, pattern in _STATES if pattern.search(name)), None)
