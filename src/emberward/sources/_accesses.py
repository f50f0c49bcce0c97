"""Which memory the operations of the observed steps read and write, from the profiler's own tree. Needs torch.

[Note: accesses]
Of each operation the tree has the allocations of the tensors that it was given, and those that it made
(``profile_memory``). An operation whose name ends in ``_`` writes into the first of what it is given, a fused or
``_foreach`` one into all; one that makes no memory and writes nothing gives a view, and reads nothing. A module reads
what it is given when its forward begins. Kept are the training thread's collectives that the program asks for itself,
with what they read and write, and the accesses to their memory and to what that is packed from and unpacked into
(`is_pack`: copies, joins, scalings, sums, also with what went before, and empty memory, all of which can move with a
call; `is_copy`: and change no number). What FSDP issues is its own to schedule.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

START, BACKWARD, GIVEN = "emberward::at start", "emberward::backward ", "emberward::given"
KERNEL = re.compile(r"^(?!torch::autograd|autograd::|FSDP|c10d::|_c10d_functional|emberward::)\w+::\w")
MAX_NODES = 400_000
MAX_PACKED = 4
"""Times that memory is followed through a pack."""
_READS = frozenset({"item", "_local_scalar_dense", "is_nonzero", "equal"})
"""Operations that make no memory and read what they are given."""
_PACKS = re.compile(
    r"^(cat|stack|copy|clone|contiguous|to|reshape|flatten|pad|constant_pad_nd|zeros|ones|zero|fill|empty|narrow_copy|"
    r"(zeros|ones|empty)_like|new_(empty|zeros|ones)|empty_strided|new_empty_strided|add|div|lerp|mul|sub|sum|mean)_?$|"
    r"^_(to_copy|foreach_(copy|div|mul)_?)$"
)
_COPIES = re.compile(r"^(cat|stack|copy|clone|contiguous|to|reshape|flatten|narrow_copy)_?$|^_(to_copy|foreach_copy_)$")
"""Packs that give the numbers which they are given."""
_OVERWRITES = re.compile(r"^(copy|fill|zero|_foreach_copy)_$")
"""Operations that write into what they are given and do not read it."""
_EMPTY = re.compile(r"^(new_)?empty(_like|_strided)?$")
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Access:
    began_ns: int
    ended_ns: int
    is_pack: bool
    is_copy: bool
    reads: frozenset[int]
    writes: frozenset[int]
    backward: Span | None


@dataclass(frozen=True, slots=True)
class _Issue:
    began_ns: int
    given: frozenset[int]
    gotten: frozenset[int]
    backward: Span | None


class _Reader:
    """Walks a tree once; `issues` and `accesses` are those of the thread that has the span START."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self.issues: list[_Issue] = []
        self.accesses: list[_Access] = []
        self._num_left = MAX_NODES
        roots = list(roots)
        main = next((node.start_tid for node in roots if node.name == START), None)
        self._background = [
            (node.start_time_ns, _given(node), _written_below(node))
            for node in roots
            if node.start_tid != main and node.name.startswith("gloo:")
        ]
        for node in roots:
            if node.start_tid == main:
                self._visit(node, None)

    def _visit(self, node: Any, backward: Span | None) -> None:
        self._num_left -= 1
        if self._num_left < 0 or node.name.startswith("FSDP::"):
            return
        if node.name.startswith("c10d::"):
            self._issue(node, backward)
        elif (size := _allocated(node)) is not None:
            if size[1] > 0:
                none, made = frozenset[int](), frozenset({size[0]})
                self.accesses.append(
                    _Access(node.start_time_ns, node.start_time_ns, False, False, none, made, backward)
                )
        elif node.name == GIVEN:
            given = frozenset[int]().union(*(_given(each) for each in node.children))
            at_ns = node.start_time_ns
            self.accesses.append(_Access(at_ns, at_ns, False, False, given, frozenset(), backward))
        elif KERNEL.match(node.name):
            self._operation(node, backward)
        else:
            inside = (node.start_time_ns, node.end_time_ns) if node.name.startswith(BACKWARD) else backward
            for child in node.children:
                self._visit(child, inside)

    def _issue(self, node: Any, backward: Span | None) -> None:
        inputs = [frozenset(_storages([each])) for each in node.extra_fields.inputs]
        held = [each for each in inputs if each]
        if not held:
            return
        given, gotten = (held[-1], held[0]) if len(held) > 1 else (held[0], held[0])
        if node.name.startswith(("c10d::allgather_", "c10d::gather")) and len(held) == 1:
            # The profiler has no lists of lists; what gloo's own thread writes for this call is what it gets.
            later = (each for each in self._background if each[0] >= node.start_time_ns and each[1] & given)
            gotten = next((written - given for _, _, written in later), frozenset())
        elif node.name == "c10d::send":
            gotten = frozenset()
        self.issues.append(_Issue(node.start_time_ns, given, gotten, backward))

    def _operation(self, node: Any, backward: Span | None) -> None:
        name = node.name.partition("::")[2]
        given, made = _given(node), _made(node)
        written = _written(node)
        if not (made or written or name in _READS):
            return
        is_pack = bool(_PACKS.match(name)) and not (name.startswith(("mul", "div")) and len(given) > 2)
        if _OVERWRITES.match(name):
            given -= made | written
        if _EMPTY.match(name):
            given = frozenset()
        ended_ns = max(node.end_time_ns, node.start_time_ns)
        is_copy = is_pack and bool(_COPIES.match(name))
        self.accesses.append(_Access(node.start_time_ns, ended_ns, is_pack, is_copy, given, made | written, backward))


def _storages(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, list):
            yield from _storages(value)
        elif (number := getattr(value, "allocation_id", None)) is not None:
            yield int(number)


def _given(node: Any) -> frozenset[int]:
    return frozenset(_storages(getattr(node.extra_fields, "inputs", ())))


def _written(node: Any) -> frozenset[int]:
    name = node.name.partition("::")[2]
    if not name.endswith("_") or name.endswith("__"):
        return frozenset()
    inputs = node.extra_fields.inputs
    return frozenset(_storages(inputs if name.startswith(("_fused", "_foreach")) else inputs[:1]))


def _written_below(node: Any) -> frozenset[int]:
    own = _written(node) if KERNEL.match(node.name) else frozenset[int]()
    return own.union(*(_written_below(child) for child in node.children))


def _allocated(node: Any) -> tuple[int, int] | None:
    """Number and bytes of an allocation, of a release bytes below 0; None of other nodes."""
    size = getattr(node.extra_fields, "alloc_size", None)
    return None if size is None else (int(node.extra_fields.allocation_id or 0), int(size))


def _made(node: Any) -> frozenset[int]:
    """What an operation has allocated and not released."""
    found: set[int] = set()
    for child in node.children:
        size = _allocated(child)
        if size is None:
            found |= _made(child)
        elif size[1] > 0:
            found.add(size[0])
        else:
            found.discard(size[0])
    return frozenset(found)


def accesses_of(result: Any) -> Iterator[dict[str, Any]]:
    """The lines of a file of operations for what `result`, torch's own, has of collectives and their memory.

    Asked where there are collectives alone: the walk takes as long as all else that is written.
    """
    seen = _Reader(result.experimental_event_tree())
    tracked = set().union(*(each.given | each.gotten for each in seen.issues))
    for _ in range(MAX_PACKED):
        for each in seen.accesses:
            if each.is_pack and (each.reads | each.writes) & tracked:
                tracked |= each.reads | each.writes
    for issue in seen.issues:
        yield {"issue": [issue.began_ns, sorted(issue.given), sorted(issue.gotten), issue.backward]}
    for each in seen.accesses:
        if (each.reads | each.writes) & tracked:
            sets = sorted(each.reads & tracked), sorted(each.writes & tracked)
            yield {"access": [each.began_ns, each.ended_ns, each.is_pack + each.is_copy, *sets, each.backward]}
