"""What the probe of one rank observed, read back. The writer is `emberward.sources._operations`."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emberward.lens._samples import Instruction
from emberward.lens._source import Line

FORM = 1
OPERATIONS_SUFFIX, UNFINISHED_SUFFIX = ".ops", ".tmp-ops"
MODULE, AT, BACKWARD = "emberward::module ", "emberward::at ", "emberward::backward "
START = f"{AT}start"
KERNEL = re.compile(r"^(?!torch::autograd|autograd::|FSDP|c10d::|_c10d_functional|emberward::)\w+::\w")
"""Names of operations that compute; others are spans around them, collectives, or nodes of the backward."""
_READS = frozenset({"aten::item", "aten::is_nonzero", "aten::_local_scalar_dense"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One span of one thread, in seconds of the host's monotonic clock. `sequence`: its node of the backward, or -1.

    `shapes`, `dtypes`: of its arguments; `flops`: what torch itself counted, 0 where it does not.
    """

    name: str
    thread: int
    began_s: float
    ended_s: float
    sequence: int
    flops: int
    is_async: bool
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as one rank holds it: elements over all shards where it knows, `mark` to tell replicas otherwise."""

    name: str
    numel: int
    held: int
    mark: float | None


Where = tuple[Line, ...]
"""Lines of the program's frames around a place, the innermost first."""
Called = tuple[str, int, str]
"""File and line of a caller, and the name of a function."""
Backward = tuple[float, float] | None
"""Begin and end of the backward in which something happened; None outside of one."""


@dataclass(frozen=True, slots=True)
class Access:
    """An operation on memory that a collective has to do with. `is_pack`: it can move with the call; `is_copy`: and it
    changes no number."""

    began_s: float
    ended_s: float
    is_pack: bool
    reads: frozenset[int]
    writes: frozenset[int]
    backward: Backward
    is_copy: bool = False


@dataclass(frozen=True, slots=True)
class Issue:
    """A collective that the program asked for: the memory that it reads and the memory that it writes."""

    began_s: float
    given: frozenset[int]
    gotten: frozenset[int]
    backward: Backward


@dataclass(frozen=True, slots=True)
class Alike:
    """Of a place that calls torch: nanoseconds of calls that computed what was computed before, of the others, and of
    those of the first that keep a graph and no library makes; the share of the first in all that has a backward."""

    alike_ns: int
    other_ns: int
    own_ns: int
    backward: float


@dataclass(frozen=True, slots=True)
class Rows:
    """Of a place that computes rows which nothing reads: nanoseconds for these and for all of torch's calls there,
    their share in all of the program that has a backward, and whether the place makes them."""

    unread_ns: int
    all_ns: int
    backward: float
    is_maker: bool


@dataclass(frozen=True, slots=True)
class Wide:
    """Of a place that computes in 64 bits: where its numbers became so, nanoseconds that are for nothing and of all of
    torch's calls there, and their share in all that has a backward. See [Note: numbers of 64 bits] in `sources._wide`.
    """

    became: Where
    wide_ns: float
    all_ns: float
    backward: float


@dataclass(frozen=True, slots=True)
class Picks:
    """Of a place with products that pick: nanoseconds of these and of all of torch's calls there, and their share in
    all that has a backward. See [Note: products that pick] in `sources._picks`."""

    picks_ns: float
    all_ns: float
    backward: float


@dataclass(frozen=True, slots=True)
class Returned:
    """Of the calls of a function that a line makes: the share of their time that gave what they had given before, and
    how many did. See [Note: returned again] in `sources._returns`."""

    share: float
    count: int


@dataclass(frozen=True, slots=True)
class Form:
    """Of a place with operations that torch has in another form: what they compute, as it is measured, and how many a
    step has. See [Note: other forms] in `sources._forms`."""

    where: Where
    computes: Mapping[str, Any]
    calls: float


@dataclass(frozen=True, slots=True)
class Table:
    """A table of embeddings that gets a whole gradient: the line that made it, and the share of its rows that a step
    looks up. See [Note: dense gradients] in `sources._tables`."""

    site: str
    shape: tuple[int, ...]
    looked_up: float


@dataclass(frozen=True, slots=True)
class Held:
    """A collective of the compared steps, and a checksum of what the rank gave to it; None where that says nothing.

    `group`, `size`: its group's name and number of ranks. See [Note: held by all] in `sources._held`.
    """

    line: Line
    op: str
    group: str
    size: int
    checksum: int | None


@dataclass(frozen=True, slots=True)
class OfAll:
    """Calls of a place on rows of all ranks: checksum or None, nanoseconds, whether a backward may go through.

    `all_ns`: of all calls of the place; `graph_ns`: of all calls of the steps that have a backward; `roots`: checksums
    of single numbers of which one may begin. See [Note: computed by all ranks] in `sources._of_all`.
    """

    calls: tuple[tuple[int | None, int, bool], ...]
    all_ns: int
    graph_ns: int
    roots: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class OwnPart:
    """Gathers of one place and size of which the rank reads its own part alone, and seconds a step that the others are
    copied and computed with; or, `is_again`, of what the step has gathered already.

    See [Note: gathered for its own part] in `sources._parts`.
    """

    where: Where
    num_bytes: int
    given_bytes: int
    is_backward: bool
    gathers: float
    took_s: float
    is_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A backward some of whose nodes no gradient needs that is read: their `sequences`, and of how many parameters and
    numbers, or of how many inputs, the gradients are which nothing reads. `half`: products that are needed for one of
    the two gradients that they compute.

    `site`: the line that called it, or that asked for the gradients of the inputs. `is_again`: an earlier one, at that
    line, went through these nodes too, and their gradients are added up.
    """

    backward: tuple[float, float]
    site: str
    sequences: frozenset[int]
    num_parameters: int
    numel: int
    half: frozenset[int] = frozenset()
    num_inputs: int = 0
    is_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOperations:
    """The observed steps of one rank. Step k lies between bounds k and k + 1; `main`: its training thread.

    `free_bytes`: memory that the host could still give; None where that is not known. `why_short`: why fewer steps
    were observed than asked for. `accesses`, in order, and `issues`: see [Note: accesses].
    `units`: of each unit of FSDP's the line that made it, and its bytes whole. `replicated`: of each DDP its line.
    `pageable`: lines that copy from memory which is not pinned to a device. `looks`: moments, on the clock of the
    bounds, and the training thread's stack then, innermost first. `alike`: by the program's lines around a place that
    calls torch, what of it was computed before.
    `padded`: of places that embed tokens these lines, the share of the tokens that a shorter batch would not have, and
    the lines around what put the tokens together; none where that was not seen.
    `copies`: of places that join again what they had joined, the share of their calls' time that it takes.
    `unread_results`: of places with operations whose results nothing reads, the share of their time that these take.
    `returned`: of calls of Python functions what they gave again ([Note: returned again]).
    `wide`: of places that compute in 64 bits, where their numbers became so, and what of it is for nothing.
    `rows`: of places that compute rows which nothing reads; `picks`: of places where an index does for a product.
    `checks_calls`: torch compares each collective between the ranks before it begins.
    """

    rank: int
    device: str
    device_name: str
    threads: int
    main: int
    bounds_s: tuple[float, ...]
    operations: tuple[Operation, ...]
    parameters: tuple[Parameter, ...]
    free_bytes: int | None
    why_short: str | None
    is_cut: bool
    issues: tuple[Issue, ...] = ()
    accesses: tuple[Access, ...] = ()
    units: tuple[tuple[str, int], ...] = ()
    replicated: tuple[str, ...] = ()
    pageable: frozenset[str] = frozenset()
    looks: tuple[tuple[float, tuple[Instruction, ...]], ...] = ()
    unread: tuple[Unread, ...] = ()
    alike: Mapping[Where, Alike] = field(default_factory=dict)
    padded: tuple[tuple[Where, float, Where], ...] = ()
    rows: Mapping[Where, Rows] = field(default_factory=dict)
    wide: Mapping[Where, Wide] = field(default_factory=dict)
    picks: Mapping[Where, Picks] = field(default_factory=dict)
    copies: Mapping[Where, float] = field(default_factory=dict)
    unread_results: Mapping[Where, float] = field(default_factory=dict)
    returned: Mapping[Called, Returned] = field(default_factory=dict)
    held: tuple[Held, ...] = ()
    own_parts: tuple[OwnPart, ...] = ()
    of_all: Mapping[Where, OfAll] = field(default_factory=dict)
    forms: tuple[Form, ...] = ()
    tables: tuple[Table, ...] = ()
    checks_calls: bool = False

    @property
    def num_steps(self) -> int:
        """Steps that were observed whole."""
        return max(len(self.bounds_s) - 1, 0)

    @property
    def num_reads(self) -> float:
        """Numbers that the training thread takes out of tensors, a step."""
        reads = sum(each.name in _READS and each.thread == self.main for each in self.operations)
        return reads / max(self.num_steps, 1)

    @property
    def step_s(self) -> float:
        """Their mean length."""
        return (self.bounds_s[-1] - self.bounds_s[0]) / self.num_steps if self.num_steps else 0.0


def read_operations(path: Path) -> RankOperations:
    """What a file holds. Raises ValueError when it is none of ours, or is cut; OSError when it cannot be read."""
    with path.open(encoding="utf-8") as file:
        return operations_of(json.loads(line) for line in file)


def operations_of(lines: Iterable[Mapping[str, Any]]) -> RankOperations:
    """The rank that the lines of a file describe. Raises ValueError when they are cut or of another form."""
    rest = iter(lines)
    head = next(rest, {})
    if head.get("form") != FORM:
        raise ValueError("not a file of operations, or of another version")
    words: list[str] = []
    parameters: list[Parameter] = []
    operations: list[Operation] = []
    issues: list[Issue] = []
    accesses: list[Access] = []
    looks = _Looks()
    unread: list[Unread] = []
    alike: dict[Where, Alike] = {}
    padded: list[tuple[Where, float, Where]] = []
    rows: dict[Where, Rows] = {}
    wide: dict[Where, Wide] = {}
    of_all: dict[Where, OfAll] = {}
    picks: dict[Where, Picks] = {}
    copies: dict[Where, float] = {}
    unread_results: dict[Where, float] = {}
    returned: dict[Called, Returned] = {}
    held: list[Held] = []
    own_parts: list[OwnPart] = []
    forms: list[Form] = []
    tables: list[Table] = []
    types: dict[int, tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]] = {}
    is_ended = False

    def at(time_ns: int) -> float:
        return (time_ns - int(head["offset_ns"])) / 1e9

    def span(times: Sequence[int] | None) -> Backward:
        return None if times is None else (at(times[0]), at(times[1]))

    for line in rest:
        if "word" in line:
            words.append(line["word"])
        elif "parameter" in line:
            parameters.append(Parameter(*line["parameter"]))
        elif "op" in line:
            name, kind, thread, start_ns, took_ns, sequence, flops, is_async = line["op"]
            if kind not in types:
                shapes, dtypes = json.loads(words[kind])
                types[kind] = tuple(tuple(_shape(each)) for each in shapes), tuple(dtypes)
            times = at(start_ns), at(start_ns + took_ns)
            operations.append(Operation(words[name], thread, *times, sequence, flops, bool(is_async), *types[kind]))
        elif "issue" in line:
            began_ns, given, gotten, inside = line["issue"]
            issues.append(Issue(at(began_ns), frozenset(given), frozenset(gotten), span(inside)))
        elif "access" in line:
            began_ns, ended_ns, packs, reads, writes, inside = line["access"]
            sets = frozenset(reads), frozenset(writes)
            accesses.append(Access(at(began_ns), at(ended_ns), packs > 0, *sets, span(inside), is_copy=packs > 1))
        elif "alike" in line:
            where, *of_place = line["alike"]
            alike[_where(where)] = Alike(*of_place)
        elif "padded" in line:
            where, share, *made = line["padded"]
            padded.append((_where(where), share, _where(made[0]) if made else ()))
        elif "rows" in line:
            where, *of_place = line["rows"]
            rows[_where(where)] = Rows(*of_place)
        elif "wide" in line:
            where, became, *of_place = line["wide"]
            wide[_where(where)] = Wide(_where(became), *of_place)
        elif "copies" in line:
            where, copied_ns, all_ns = line["copies"]
            copies[_where(where)] = min(copied_ns / max(all_ns, 1), 1.0)
        elif "unread_results" in line:
            where, unread_ns, all_ns = line["unread_results"]
            unread_results[_where(where)] = min(unread_ns / max(all_ns, 1), 1.0)
        elif "returned" in line:
            file, number, function, *of_call = line["returned"]
            returned[file, number, function] = Returned(*of_call)
        elif "picks" in line:
            where, *of_place = line["picks"]
            picks[_where(where)] = Picks(*of_place)
        elif "form" in line:
            where, computes, calls = line["form"]
            forms.append(Form(_where(where), computes, calls))
        elif "table" in line:
            site, shape, looked_up = line["table"]
            tables.append(Table(site, tuple(shape), looked_up))
        elif "of_all" in line:
            where, calls, all_ns, graph_ns, roots = line["of_all"]
            of_all[_where(where)] = OfAll(tuple(map(tuple, calls)), all_ns, graph_ns, tuple(roots))
        elif "held" in line:
            file, number, *of_call = line["held"]
            held.append(Held((file, number), *of_call))
        elif "parts" in line:
            where, num_bytes, given, is_backward, is_again, gathers, took_ns = line["parts"]
            own_parts.append(OwnPart(_where(where), num_bytes, given, is_backward, gathers, took_ns / 1e9, is_again))
        elif "unread" in line:
            each = line["unread"]
            began, ended = each["backward"]
            unread.append(
                Unread(
                    backward=(at(began), at(ended)),
                    site=each["site"],
                    sequences=frozenset(each["sequences"]),
                    half=frozenset(each.get("half", ())),
                    num_parameters=each.get("parameters", 0),
                    num_inputs=each.get("inputs", 0),
                    numel=each.get("numel", 0),
                    is_again=each.get("again", False),
                )
            )
        else:
            looks.note(line)
        is_ended = is_ended or "end" in line
    if not is_ended:
        raise ValueError("the file is cut off")
    return RankOperations(
        rank=head["rank"],
        device=head["device"],
        device_name=head.get("device_name") or head["device"],
        threads=head.get("threads", 1),
        main=next((each.thread for each in operations if each.name == START), -1),
        bounds_s=tuple(each / 1e9 for each in head["bounds_ns"]),
        operations=tuple(operations),
        parameters=tuple(parameters),
        free_bytes=head["free_bytes"],
        pageable=frozenset(head.get("pageable", ())),
        why_short=head["why_short"],
        is_cut=head["is_cut"],
        issues=tuple(issues),
        units=tuple((site, size) for site, size in head.get("units", ())),
        replicated=tuple(head.get("replicated", ())),
        accesses=tuple(sorted(accesses, key=lambda each: each.began_s)),
        looks=tuple(looks.seen),
        unread=tuple(unread),
        alike=alike,
        padded=tuple(padded),
        rows=rows,
        wide=wide,
        picks=picks,
        copies=copies,
        unread_results=unread_results,
        returned=returned,
        held=tuple(held),
        own_parts=tuple(own_parts),
        of_all=of_all,
        forms=tuple(forms),
        tables=tuple(tables),
        checks_calls=head.get("checks_calls", False),
    )


class _Looks:
    """Moments and the training thread's stacks, whose places come before them."""

    def __init__(self) -> None:
        self._places: list[Instruction] = []
        self.seen: list[tuple[float, tuple[Instruction, ...]]] = []

    def note(self, line: Mapping[str, Any]) -> None:
        """Reads a line, if it is of a place or a look."""
        if "place" in line:
            self._places.append(Instruction(*line["place"]))
        elif "look" in line:
            at_ns, numbers = line["look"]
            self.seen.append((at_ns / 1e9, tuple(self._places[i] for i in numbers)))


def _where(lines: Iterable[Sequence[Any]]) -> Where:
    return tuple((file, number) for file, number in lines)


def _shape(value: Any) -> list[int]:
    return [each for each in value if isinstance(each, int)] if isinstance(value, list) else []
