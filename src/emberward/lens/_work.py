"""What a job's steps computed, and where their time went from the peak down. Pure.

[Note: the waterfall]
Each moment of a training thread in the observed steps belongs to one thing, the first of these that fits:

* an operation that computes. Those that make matrix products take what the peak would, and more: `products`; forward
  operations inside the backward are `recompute`; the rest is `other_operations`;
* a collective under way that the thread waits for: it stands in the call or its wait as the ring saw them, or it runs
  no operation inside the backward or inside FSDP's own work. Until the last rank of it has come that is `imbalance`, in
  a send or receive `bubble`, else `exposed`;
* all else is the host's own time: as much of it as the stall finder found in the sampled steps is `stalls`, the rest
  `small_kernels`: Python and launches, between operations too small to hide them.

The seconds are means over ranks and steps. `model` is what the products would take at the peak, so that the parts add
up to the step, and what of it is `model` is the utilisation (Chowdhery et al. 2022, PaLM, appendix B: recomputation is
no use). Operations are counted over all ranks: each computes its own part, so that a sum counts none twice.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from emberward.lens._flops import flops_of
from emberward.lens._operations import AT, BACKWARD, KERNEL, MODULE, START, Operation, RankOperations
from emberward.lens._paces import Pace, pace_of
from emberward.lens._samples import RankSamples
from emberward.lens._spans import Spans, both, length_of, union, without

Arrivals = Mapping[tuple[Any, int], tuple[float, int]]
"""Of a collective, by its key and number: when its last rank came, and which that was."""
PARTS = (
    "model",
    "products",
    "other_operations",
    "recompute",
    "exposed",
    "imbalance",
    "bubble",
    "stalls",
    "small_kernels",
)
NODE = "autograd::engine::evaluate_function: "
_BACKWARD_NODE = re.compile(r"Backward\d*$")
"""Spans that have the number of the forward operation that made their node."""
_TRANSFERS = ("send", "recv")
SHOWN_MODULES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A peak: operations a second of one rank, and whose figure it is."""

    flops_per_s: float
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A collective or transfer that the probe saw on one rank. `began_s`: when the rank came to it.

    `asked`: FSDP's unit, else the module, in which it was issued; `site`: the program's line around it. `number`: how
    many of its `key` came before it on its rank.
    """

    rank: int
    op: str
    key: tuple[str, tuple[tuple[int, ...], ...]]
    began_s: float
    ended_s: float
    num_bytes: int
    asked: str
    site: str
    label: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankWork:
    """One rank's observed steps, in seconds and floating-point operations a step. `pace`: of a step not observed."""

    rank: int
    step_s: float
    parts: Mapping[str, float]
    flops: Mapping[str, int]
    recomputed: int
    modules: Mapping[str, int]
    transfers: tuple[Transfer, ...]
    exposed: Spans
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Over the whole job, a step: operations by kind and by module, parameters, and the waterfall in seconds."""

    ranks: tuple[RankWork, ...]
    num_parameters: int
    num_steps: int
    step_s: float
    flops: Mapping[str, int]
    recomputed: int
    modules: Mapping[str, int]
    peak: Rate | None
    last: Arrivals
    waterfall: Mapping[str, float] = field(default_factory=dict)

    @property
    def mfu(self) -> float | None:
        """What of the observed steps the model's own operations would take at the peak; None without a peak."""
        return None if self.peak is None else self.waterfall["model"] / self.step_s if self.step_s else None


def work_of(
    ranks: Sequence[RankOperations],
    samples: Sequence[RankSamples] = (),
    *,
    blocked: Mapping[int, Spans] = {},
    stalls_s: Mapping[int, float] = {},
    peak: Rate | None = None,
) -> Work | None:
    """The work of the ranks; None where none was observed.

    `samples`: of the steps that were not observed; `blocked`: when the calls in each rank's ring kept its training
    thread; `stalls_s`: what it lost to stalls, a step.
    See [Note: the waterfall].
    """
    seen = [rank for rank in ranks if rank.num_steps]
    if not seen:
        return None
    transfers = {rank.rank: transfers_of(rank) for rank in seen}
    last = _last_arrivals(transfers)
    sampled = {each.rank: each for each in samples if each.num_steps}
    each = tuple(
        _rank_work(
            rank,
            transfers[rank.rank],
            last,
            blocked.get(rank.rank, []),
            stalls_s.get(rank.rank, 0.0),
            peak,
            pace_of(rank, sampled.get(rank.rank)),
        )
        for rank in seen
    )
    step_s = sum(rank.step_s for rank in each) / len(each)
    return Work(
        ranks=each,
        num_parameters=num_parameters(seen),
        num_steps=min(rank.num_steps for rank in seen),
        step_s=step_s,
        flops=_sum(rank.flops for rank in each),
        recomputed=sum(rank.recomputed for rank in each),
        modules=_sum(rank.modules for rank in each),
        peak=peak,
        last=last,
        waterfall={part: sum(rank.parts[part] for rank in each) / len(each) for part in PARTS},
    )


def _sum(each: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counts in each:
        total.update(counts)
    return dict(total.most_common())


def most_used_dtype(ranks: Sequence[RankOperations]) -> str:
    """The type of most of the operations that are counted, as torch names it."""
    counts: Counter[str] = Counter()
    for rank in ranks:
        for op in rank.operations:
            if op.dtypes and (count := flops_of(op)):
                counts[_TORCH_NAMES.get(op.dtypes[0], "float32")] += count
    return counts.most_common(1)[0][0] if counts else "float32"


_TORCH_NAMES = {"c10::BFloat16": "bfloat16", "c10::Half": "float16", "double": "float64"}


def num_parameters(ranks: Sequence[RankOperations]) -> int:
    """Elements of the job's parameters: each shard counted once, and of replicas one."""
    whole: dict[tuple[str, int, float | None], int] = {}
    for rank in ranks:
        for each in rank.parameters:
            whole[each.name, each.numel, each.mark] = each.numel
    return sum(whole.values())


def step_of(rank: RankOperations, at_s: float) -> int | None:
    """The observed step in which a moment lies; None outside of them."""
    step = bisect.bisect_right(rank.bounds_s, at_s) - 1
    return step if 0 <= step < rank.num_steps else None


def transfers_of(rank: RankOperations) -> tuple[Transfer, ...]:
    """The collectives and transfers with a begin and an end, in order of their begin."""
    main = [op for op in rank.operations if op.thread == rank.main and not op.is_async]
    issues = _Issues(op for op in main if op.name.startswith("c10d::"))
    labels = _Nested([op for op in main if op.name.startswith("FSDP::")])
    modules = _Nested([op for op in main if op.name.startswith(MODULE)])
    sites = _Nested([op for op in main if op.name.startswith((AT, BACKWARD)) and op.name != START])
    found: list[Transfer] = []
    seen: Counter[Any] = Counter()
    for op in sorted((op for op in rank.operations if op.is_async and ":" in op.name), key=lambda op: op.began_s):
        issue = issues.of(op)
        began_s = op.began_s if issue is None else issue.began_s
        # A reduce-scatter of gloo is an all-reduce below; the call's own name says what was asked for.
        name = op.name.partition(":")[2] if issue is None else issue.name.removeprefix("c10d::").strip("_")
        label = labels.at(began_s)
        unit = label.rpartition("(")[2].rstrip(")") if "(" in label else modules.at(began_s).removeprefix(MODULE)
        key = name, op.shapes
        seen[key] += 1
        found.append(
            Transfer(
                rank=rank.rank,
                op=name,
                key=key,
                number=seen[key] - 1,
                began_s=began_s,
                ended_s=max(op.ended_s, began_s),
                num_bytes=_bytes(issue if issue is not None and any(issue.shapes) else op),
                asked=unit,
                site=sites.at(began_s).removeprefix(AT).removeprefix(BACKWARD),
                label=label.partition(" (")[0].removeprefix("FSDP::"),
            )
        )
    return tuple(found)


class _Issues:
    """The calls by which a thread asked for collectives: the span of one begins when gloo's thread takes it up."""

    def __init__(self, calls: Iterable[Operation]) -> None:
        self._waiting: dict[str, list[Operation]] = {}
        for call in sorted(calls, key=lambda op: op.began_s):
            kind = re.sub("[^a-z]", "", call.name.removeprefix("c10d::"))
            for name, asked in _BELOW.items():
                if kind.startswith(asked):
                    self._waiting.setdefault(name, []).append(call)
                    break

    def of(self, span: Operation) -> Operation | None:
        """The earliest call that is left which this span can be of; each is given once."""
        waiting = self._waiting.get(span.name.partition(":")[2].replace("_", ""), [])
        return waiting.pop(0) if waiting and waiting[0].began_s <= span.began_s else None


_BELOW = {
    "allreduce": ("allreduce", "reducescatter"),
    "allgather": ("allgather",),
    "alltoall": ("alltoall",),
    "broadcast": ("broadcast",),
    "reduce": ("reduce",),
    "gather": ("gather",),
    "scatter": ("scatter",),
    "barrier": ("barrier",),
    "send": ("send",),
    "recv": ("recv",),
}
"""The name of gloo's span, and the calls that come down to it: its reduce-scatter is an all-reduce (torch 2.13)."""


_ITEM = {"double": 8, "long": 8, "long int": 8, "half": 2, "c10::BFloat16": 2, "c10::Half": 2, "unsigned char": 1}


def _bytes(op: Operation) -> int:
    """Of its largest tensor: what a gather gives, what a reduce-scatter takes."""
    sizes = [0]
    for shape, dtype in zip(op.shapes, op.dtypes, strict=False):
        if shape:
            size = _ITEM.get(dtype, 4)
            for dim in shape:
                size *= dim
            sizes.append(size)
    return max(sizes)


class _Nested:
    """Spans of one thread, of which those around a moment are asked for."""

    def __init__(self, spans: Sequence[Operation]) -> None:
        self._spans = sorted(spans, key=lambda op: (op.began_s, -op.ended_s))
        self._begins = [op.began_s for op in self._spans]
        self._around: list[int | None] = []
        open_: list[int] = []
        for index, span in enumerate(self._spans):
            while open_ and self._spans[open_[-1]].ended_s < span.ended_s:
                open_.pop()
            self._around.append(open_[-1] if open_ else None)
            open_.append(index)

    def span(self, at_s: float) -> Operation | None:
        """The innermost span at that moment."""
        index: int | None = bisect.bisect_right(self._begins, at_s) - 1
        while index is not None and index >= 0:
            if self._spans[index].ended_s >= at_s:
                return self._spans[index]
            index = self._around[index]
        return None

    def at(self, at_s: float) -> str:
        """Its name; empty where there is none."""
        found = self.span(at_s)
        return "" if found is None else found.name


def _last_arrivals(transfers: Mapping[int, Sequence[Transfer]]) -> Arrivals:
    """Of the k-th collective of a kind its last rank and when that came, for kinds of which all ranks have as many."""
    counts = {rank: Counter(each.key for each in own) for rank, own in transfers.items()}
    last: dict[tuple[Any, int], tuple[float, int]] = {}
    for own in transfers.values():
        for each in own:
            if len({count[each.key] for count in counts.values()}) == 1:
                at = each.key, each.number
                last[at] = max(last.get(at, (each.began_s, each.rank)), (each.began_s, each.rank))
    return last


def _rank_work(
    rank: RankOperations,
    transfers: Sequence[Transfer],
    last: Arrivals,
    blocked: Spans,
    stalls_s: float,
    peak: Rate | None,
    pace: Pace,
) -> RankWork:
    begin, end = rank.bounds_s[0], rank.bounds_s[-1]
    main = [op for op in rank.operations if op.thread == rank.main and not op.is_async]
    nodes = _Nested([op for op in main if op.name.startswith(NODE)])
    modules = _Nested([op for op in main if op.name.startswith(MODULE)])
    flops, by_module, recomputed = _counted(rank, main, nodes, modules)
    outer = [op for op in _outermost(op for op in main if KERNEL.match(op.name)) if begin <= op.began_s < end]
    products = {id(op) for op in outer if any(flops_of(inner) for inner in _inside(main, op))}
    busy = {"products": 0.0, "recompute": 0.0, "other_operations": 0.0}
    for op in outer:
        is_again = op.sequence >= 0 and nodes.span(op.began_s) is not None
        busy["recompute" if is_again else "products" if id(op) in products else "other_operations"] += (
            op.ended_s - op.began_s
        )
    gaps = without([(begin, end)], [(op.began_s, op.ended_s) for op in outer])
    waits = union([*blocked, *((op.began_s, op.ended_s) for op in main if _is_waiting_place(op))])
    idle = both(gaps, waits)
    late, moved, sent = _under_way(transfers, last)
    in_flight = both(idle, union([*late, *moved, *sent]))
    imbalance = both(idle, late)
    bubble = both(without(idle, late), sent)
    steps = rank.num_steps
    host_s = (length_of(gaps) - length_of(in_flight)) / steps
    model_s = (sum(flops.values()) - recomputed) / steps / peak.flops_per_s if peak is not None else 0.0
    parts = {name: seconds / steps for name, seconds in busy.items()}
    parts["model"] = min(model_s, parts["products"])
    parts["products"] -= parts["model"]
    parts["imbalance"], parts["bubble"] = length_of(imbalance) / steps, length_of(bubble) / steps
    parts["exposed"] = length_of(in_flight) / steps - parts["imbalance"] - parts["bubble"]
    parts["stalls"] = min(stalls_s, host_s)
    parts["small_kernels"] = host_s - parts["stalls"]
    return RankWork(
        rank=rank.rank,
        step_s=rank.step_s,
        parts=parts,
        flops={name: count // steps for name, count in flops.items()},
        recomputed=recomputed // steps,
        modules={name: count // steps for name, count in by_module.items()},
        transfers=tuple(each for each in transfers if begin <= each.began_s < end),
        exposed=in_flight,
        pace=pace,
    )


def _is_waiting_place(op: Operation) -> bool:
    """Whether a thread that runs no operation there waits: in a collective's call, in FSDP's work, in the backward."""
    return op.name.startswith(("c10d::", "_c10d_functional", "FSDP::", BACKWARD))


def _under_way(transfers: Sequence[Transfer], last: Arrivals) -> tuple[Spans, Spans, Spans]:
    """When a rank's collectives waited for peers, when they moved data, and when it sent or received."""
    late: Spans = []
    moved: Spans = []
    sent: Spans = []
    for each in transfers:
        if each.op.startswith(_TRANSFERS):
            sent.append((each.began_s, each.ended_s))
            continue
        last_s, _ = last.get((each.key, each.number), (each.began_s, each.rank))
        arrived_s = min(max(last_s, each.began_s), each.ended_s)
        late.append((each.began_s, arrived_s))
        moved.append((arrived_s, each.ended_s))
    # Where one collective moves data while another still waits for its last rank, the data holds the step up.
    return without(union(late), moved), union(moved), union(sent)


def _counted(
    rank: RankOperations, main: Sequence[Operation], nodes: _Nested, modules: _Nested
) -> tuple[dict[str, int], dict[str, int], int]:
    """Operations by kind and by module of all observed steps, and how many of them were computed a second time."""
    begin, end = rank.bounds_s[0], rank.bounds_s[-1]
    made_by: dict[int, str] = {}
    of_node = _Nested([op for op in main if op.sequence >= 0 and _BACKWARD_NODE.search(op.name)])
    kinds: Counter[str] = Counter()
    by_module: Counter[str] = Counter()
    again = 0
    for op in main:
        if not KERNEL.match(op.name):
            continue
        node, module = nodes.span(op.began_s), modules.at(op.began_s).removeprefix(MODULE)
        if node is None and op.sequence >= 0 and module:
            made_by[op.sequence] = module
        count = flops_of(op) if begin <= op.began_s < end else 0
        if not count:
            continue
        if node is not None and op.sequence >= 0:
            again += count
        elif node is not None and not module:
            made = of_node.span(op.began_s)
            module = "" if made is None else made_by.get(made.sequence, "")
        kinds[op.name.removeprefix("aten::")] += count
        by_module[module or "outside any module"] += count
    return dict(kinds), dict(by_module), again


def _outermost(ops: Iterable[Operation]) -> list[Operation]:
    found: list[Operation] = []
    for op in sorted(ops, key=lambda op: (op.began_s, -op.ended_s)):
        if not found or op.began_s >= found[-1].ended_s:
            found.append(op)
    return found


def _inside(ops: Sequence[Operation], outer: Operation) -> Iterable[Operation]:
    """Of `ops`, in order of their begin, those that run within `outer`, itself among them."""
    index = bisect.bisect_left(ops, outer.began_s, key=lambda op: op.began_s)
    while index < len(ops) and ops[index].began_s < outer.ended_s:
        yield ops[index]
        index += 1
