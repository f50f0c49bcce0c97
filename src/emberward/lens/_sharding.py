"""What sharded parameters cost a job's steps: gathers and scatters, who asked for them, which were not needed. Pure.

[Note: gathered twice]
Parameters change once a step, in the optimizer. A unit that is gathered more often in a step was released meanwhile,
for the sake of memory. Where a program gathers weights itself that FSDP gathers too (``full_tensor``), its own gathers
are the second ones: FSDP's have the same numbers in the same step. Of other gathers their memory tells: those of one
group that are given what it gathered before in the step, not written since. Where the units, whole, fit into the
memory that was free on the host in the observed steps, on all its ranks together, that is time for nothing. Its cost is
what the gathers after a step's first keep the training thread: exposed, or in FSDP's work of issuing and copying them.
Which unit a gather is of, its asker says: FSDP names it, else the module in which it was issued, with its size.
Where the line that asks for it is inside of what two lines of a caller run, one after the other, the second of these is
the one that can be changed.
"""

import bisect
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import takewhile

from emberward.findings import Cause
from emberward.lens._buckets import small_buckets
from emberward.lens._buffers import broadcast_buffers
from emberward.lens._calls import Call
from emberward.lens._debug_modes import CHECKPOINTING, switched_on_at
from emberward.lens._gathers import Unit, gathers_of, times, unit_of, within
from emberward.lens._operations import BACKWARD, KERNEL, RankOperations
from emberward.lens._overlap import MIN_TINY, SMALL_BYTES, load_of, taken_s
from emberward.lens._own_parts import gathered_again, gathered_own_parts, moved_for_own_parts
from emberward.lens._reductions import reduced_again
from emberward.lens._samples import (
    ENGINE,
    MIN_COST_S,
    MIN_GAIN,
    MIN_SHARE,
    USER,
    Instruction,
    RankSamples,
    is_backward,
    is_module_call,
    share_at,
)
from emberward.lens._source import Sources
from emberward.lens._spans import Spans, both, length_of, without
from emberward.lens._tables import dense_gradients
from emberward.lens._trains import LIBRARY
from emberward.lens._units import blocks_of, could_keep_until, spans_by_unit, start_share
from emberward.lens._unread import backward_again, unread_gradients, unread_inputs
from emberward.lens._waste import Waste, fits, kept_s
from emberward.lens._work import NODE, RankWork, Transfer, Work

MIN_TWICE = 1.5
"""Gathers of a unit in a step, from which it is gathered again in most steps."""
CHECKPOINT = "torch/utils/checkpoint.py"


def _of_parameters(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> list[Transfer]:
    """The gathers of parameters: those that FSDP asks for, and others by their size.

    A gather of one's own gives the whole of a shard that this rank holds, or of all shards that the asking module
    holds. What every rank holds whole nobody gathers: what is as large by chance is the state of a metric, or a loss.
    """
    marks: dict[str, set[float | None]] = defaultdict(set)
    """Of replicas one, of shards that do not know their whole size one of each rank."""
    for each in (each for other in ranks for each in other.parameters):
        marks[each.name].add(each.mark)
    held: dict[str, int] = defaultdict(int)
    for each in rank.parameters:
        if each.held != each.numel or len(marks[each.name]) > 1:
            held[each.name] = each.held
            held[each.name.rpartition(".")[0]] += each.held
    # Of calls of DTensor's torch's profiler has the size of what a rank gives, not of what it gets.
    whole = {size * n * item for size in held.values() for n in range(1, len(ranks) + 1) for item in _ITEM_BYTES}
    return [each for each in gathers_of(work) if each.label or each.num_bytes in whole]


_ITEM_BYTES = (2, 4, 8)


def wastes_of(
    work: Work,
    ranks: Sequence[RankOperations],
    calls: Mapping[int, Sequence[Call]] = {},
    samples: Sequence[RankSamples] = (),
    repeats: Mapping[int, Sequence[Call]] = {},
    sources: Sources | None = None,
) -> tuple[Waste, ...]:
    """What was gathered, reduced or computed again, or gathered in small pieces, though there was room to keep it.

    `calls`: of each rank's ring, which know the innermost line of the program that asked for a gather. `repeats`: by
    rank, the gathers of what was gathered before. Small units are told at the line that made most of them, for that is
    where they change; what is computed again, at the line of the sampled forward that asks for it.
    """
    by_rank = {rank.rank: rank for rank in ranks}
    sited = (_at_looks(_at_calls(each, calls.get(each.rank, ())), by_rank[each.rank]) for each in work.ranks)
    work = replace(work, ranks=tuple(sited))
    found: list[Waste] = []
    sampled = {each.rank: each for each in samples if each.num_steps}
    twice = partial(_gathered_twice, repeats, sampled)
    again = partial(_recompute, {each.rank: each for each in samples})
    kinds: list[Callable[..., Waste | None]] = [
        *(twice, gathered_own_parts, gathered_again, _small_parameters, again, broadcast_buffers, small_buckets),
        *(reduced_again, dense_gradients),
    ]
    for site in sorted({each.site for rank in ranks for each in rank.unread}):
        kinds += [partial(of_line, site) for of_line in (unread_gradients, unread_inputs, backward_again)]
    for one in kinds:
        each = [(rank.rank, waste) for rank in work.ranks if (waste := one(rank, by_rank[rank.rank], ranks))]
        if not each:
            continue
        _, worst = max(each, key=lambda pair: pair[1].cost_s)
        if worst.share >= MIN_GAIN and worst.cost_s >= MIN_COST_S:
            alike = tuple(rank for rank, waste in each if waste.cost_s >= worst.cost_s / 2)
            made = _made_at(ranks, _largest(work, by_rank, ranks)) if worst.cause is Cause.SMALL_PARAMETERS else None
            if one is twice:
                made = called_again_at(samples, worst.site, is_looped=_is_looped(worst, by_rank[worst.ranks[0]]))
            if worst.cause is Cause.RECOMPUTE:
                made = checkpointed_at(samples, sources or Sources())
            whole_s = max(worst.cost_s, _moving_s(worst, work, sampled))
            share = worst.share * whole_s / worst.cost_s
            found.append(replace(worst, ranks=alike, site=made or worst.site, cost_s=whole_s, share=share))
    return tuple(found)


def _moving_s(waste: Waste, work: Work, samples: Mapping[int, RankSamples]) -> float:
    """What its transfers take from the processors of its rank, a step."""
    rank = waste.ranks[0]
    own = next(each for each in work.ranks if each.rank == rank)
    if rank not in samples or not waste.transfers:
        return 0.0
    loads = (sum(load_of(each.num_bytes) for each in moved) for moved in (waste.transfers, own.transfers))
    return taken_s(samples[rank], len(samples), *loads)


def _at_calls(rank: RankWork, calls: Sequence[Call]) -> RankWork:
    """The rank with the line of the call during which each transfer was asked for, where its ring has that call."""
    known = sorted((call for call in calls if call.file), key=lambda call: call.issued_s)
    begins = [call.issued_s for call in known]

    def told(each: Transfer) -> Transfer:
        index = bisect.bisect_right(begins, each.began_s) - 1
        if index < 0 or known[index].ended_s < each.began_s:
            return each
        return replace(each, site=f"{known[index].file}:{known[index].line}")

    return replace(rank, transfers=tuple(told(each) for each in rank.transfers))


def _at_looks(rank: RankWork, seen: RankOperations) -> RankWork:
    """The rank with the line at which it was seen during each transfer that nobody else names, as a DTensor's own."""
    sites = [
        (at_s, site) for at_s, stack in seen.looks if (site := next((p.site for p in stack if p.owner == USER), None))
    ]
    moments = [at_s for at_s, _ in sites]

    def told(each: Transfer) -> Transfer:
        index = bisect.bisect_left(moments, each.began_s)
        is_seen = not each.site and not each.label and index < len(sites) and moments[index] <= each.ended_s
        return replace(each, site=sites[index][1]) if is_seen else each

    return replace(rank, transfers=tuple(told(each) for each in rank.transfers))


def _made_at(ranks: Sequence[RankOperations], num_bytes: int) -> str | None:
    """The line that made most of the units which are not larger than that; None where nobody saw them made."""
    sites = Counter(site for rank in ranks for site, size in rank.units if size <= num_bytes and site)
    return sites.most_common(1)[0][0] if sites else None


def _largest(work: Work, by_rank: Mapping[int, RankOperations], ranks: Sequence[RankOperations]) -> int:
    """Bytes of the largest unit of FSDP's that is too small; 0 where none is FSDP's."""
    small = (each for rank in work.ranks for each in _small_gathers(rank, by_rank[rank.rank], ranks) if each.label)
    return max((each.num_bytes for each in small), default=0)


def _gathered_twice(
    repeats: Mapping[int, Sequence[Call]],
    samples: Mapping[int, RankSamples],
    work: RankWork,
    rank: RankOperations,
    ranks: Sequence[RankOperations],
) -> Waste | None:
    # Kept whole, small ones are gathered no second time; parts of a block are, as one unit too.
    small = frozenset(each for each in _small_gathers(work, rank, ranks) if each.num_bytes <= SMALL_BYTES)
    asked = [each for each in gathers_of(work) if each.label and each not in small]
    counts = Counter(unit_of(each) for each in asked)
    units = {unit for unit, count in counts.items() if count >= MIN_TWICE * rank.num_steps and unit[0]}
    # Those of which the rank reads its own part alone are told as such.
    others = frozenset(each for each in gathers_of(work) if not each.label) - {*moved_for_own_parts(work, rank)}
    whole = frozenset(_whole_again(others, work, rank, ranks) if asked else ())
    again = [each for each in gathers_of(work) if each in whole or (each in others and _is_of(each, repeats))]
    for step in range(rank.num_steps):
        seen: dict[Unit, list[float]] = defaultdict(list)
        for each in within(asked, rank, step):
            seen[unit_of(each)].append(each.began_s)
        until = {unit: could_keep_until(unit[0], rank, step) or math.inf for unit in units & seen.keys()}
        again += [
            each
            for each in within(asked, rank, step)
            if unit_of(each) in until and seen[unit_of(each)][0] < each.began_s <= until[unit_of(each)]
        ]
    units_bytes = sum(num_bytes for _, num_bytes in {unit_of(each) for each in asked})
    # Nobody names the units of other gathers: of a step each that is made again counts.
    unique = units_bytes or sum(each.num_bytes for each in again) // rank.num_steps
    if not again or not fits(unique, ranks):
        return None
    cost_s, site = kept_s(work, rank, again, "FSDP::all_gather ("), _dearest(again, work)
    if not any(each.label for each in again):
        # The program's line does all else that it does for the gather's sake: FSDP has these numbers whole already.
        cost_s = max(cost_s, share_at(site, samples.get(rank.rank)) * work.pace.step_s)
    return Waste(
        cause=Cause.GATHERED_TWICE,
        site=site,
        cost_s=cost_s,
        share=cost_s / work.pace.step_s,
        ranks=(work.rank,),
        evidence=(
            f"{len(gathers_of(work)) / rank.num_steps:.0f} gathers a step, "
            f"{len(again) / rank.num_steps:.0f} of them of what the step had",
            f"kept whole they take {unique:,} bytes a rank; {rank.free_bytes:,} were free",
        ),
        transfers=tuple(again),
    )


def _whole_again(
    others: Set[Transfer], work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]
) -> Sequence[Transfer]:
    """The program's own gathers of weights that FSDP gathers too; in a step now and then they are a report."""
    own = [each for each in _of_parameters(work, rank, ranks) if each in others and each.num_bytes > SMALL_BYTES]
    return own if 2 * sum(bool(within(own, rank, step)) for step in range(rank.num_steps)) > rank.num_steps else ()


def _is_of(each: Transfer, repeats: Mapping[int, Sequence[Call]]) -> bool:
    return any(call.issued_s <= each.began_s <= call.ended_s for call in repeats.get(each.rank, ()))


def _dearest(transfers: Sequence[Transfer], work: RankWork) -> str | None:
    """The line at which most of their exposed time was asked for; None where no line is known."""
    by_site: dict[str, float] = defaultdict(float)
    for each in transfers:
        if each.site:
            by_site[each.site] += length_of(both(work.exposed, times([each]))) + 1e-9
    return max(by_site, key=lambda site: by_site[site], default=None)


def _small_gathers(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> list[Transfer]:
    """The gathers of units that are too small, where those are many and every rank can keep them whole; else none.

    Parts of one block are too small by themselves, however large ([Note: units of a block]).
    """
    blocks = _blocks(work, rank)
    parts = [each for each in gathers_of(work) if each.label and each.asked in blocks]
    parts = parts if len(parts) >= MIN_TINY * rank.num_steps else []
    small = [each for each in _of_parameters(work, rank, ranks) if each.num_bytes <= SMALL_BYTES]
    small = [each for each in small if each not in parts]
    size = sum(num_bytes for _, num_bytes in {unit_of(each) for each in small})
    return [*parts, *(small if len(small) >= MIN_TINY * rank.num_steps and fits(size, ranks) else [])]


def _blocks(work: RankWork, rank: RankOperations) -> dict[str, str]:
    asked = {each.asked for each in gathers_of(work) if each.label}
    return blocks_of(asked, (each.name for each in rank.parameters))


def _small_parameters(work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]) -> Waste | None:
    small = _small_gathers(work, rank, ranks)
    if not small:
        return None
    units = {unit_of(each) for each in small}
    blocks = _blocks(work, rank)
    parts = {each.asked for each in small if each.label and each.asked in blocks}
    names = {each.asked for each in small if each.label} - parts
    cost_s = _spent_s(names, [each for each in small if each.asked not in parts], work, rank)
    cost_s += _saved(parts, blocks, units, rank) * _spent_s(
        parts, [each for each in small if each.asked in parts], work, rank
    )
    return Waste(
        cause=Cause.SMALL_PARAMETERS,
        site=_dearest(small, work),
        cost_s=cost_s,
        share=cost_s / work.pace.step_s,
        ranks=(work.rank,),
        evidence=(
            f"{len(small) / rank.num_steps:.0f} gathers a step of units that are parts of one block, or of "
            f"{SMALL_BYTES:,} bytes or less",
            f"these {len(units)} units have {sum(num_bytes for _, num_bytes in units):,} bytes",
        ),
    )


def _spent_s(names: Set[str], gathers: Sequence[Transfer], work: RankWork, rank: RankOperations) -> float:
    """Seconds a step that the thread spends on gathers, on scatters of their units, and on FSDP's work for these."""
    scattered = [each for each in work.transfers if each.op.startswith("reduce_scatter") and each.asked in names]
    own = _spans_of(rank, lambda unit: unit in names)
    others = both(own, _spans_of(rank, lambda unit: unit not in names, "all_gather ("))
    waits = both(work.exposed, times([*gathers, *scattered]))
    return work.pace.of(without([*waits, *own], others))


def _saved(parts: Set[str], blocks: Mapping[str, str], units: Set[Unit], rank: RankOperations) -> float:
    """The share of what parts of blocks cost that one unit for each block would save."""
    if not parts:
        return 0.0
    spans = spans_by_unit(rank)
    num_bytes = {name: size for name, size in units if name in parts}
    start = start_share({name: length_of(spans.get(name, [])) for name in parts}, num_bytes)
    return start * (1 - len({blocks[name] for name in parts}) / len(parts))


def _spans_of(rank: RankOperations, is_of: Callable[[str], bool], kind: str = "") -> Spans:
    """When the training thread does FSDP's work of some units: their gathers, copies, scatters and hooks."""
    return [
        (op.began_s, op.ended_s)
        for op in rank.operations
        if op.thread == rank.main
        and not op.is_async
        and op.name.startswith(f"FSDP::{kind}")
        and "(" in op.name
        and is_of(op.name.rpartition("(")[2].rstrip(")"))
    ]


def _recompute(
    samples: Mapping[int, RankSamples], work: RankWork, rank: RankOperations, ranks: Sequence[RankOperations]
) -> Waste | None:
    """Products that are computed twice. Elementwise work alone is what selective recomputation is for (2205.05198).

    It costs all that the second forward does, as the sampled steps show it; without them, its operations.
    """
    if work.recomputed < MIN_SHARE * sum(work.flops.values()):
        return None
    nodes = [op for op in rank.operations if op.thread == rank.main and op.name.startswith(NODE)]
    again = [op for op in rank.operations if op.thread == rank.main and op.sequence >= 0 and KERNEL.match(op.name)]
    inside = both([(op.began_s, op.ended_s) for op in nodes], [(op.began_s, op.ended_s) for op in again])
    kept = sum(each for op in again for each in _tensor_bytes(op.shapes)) // max(rank.num_steps, 1)
    if not inside or not fits(kept, ranks):
        return None
    sites = Counter(op.name for op in rank.operations if op.name.startswith(BACKWARD))
    seen = samples.get(work.rank)
    cost_s = (0.0 if seen is None else _recomputing_s(seen)) or work.pace.of(inside)
    total = sum(work.flops.values())
    return Waste(
        cause=Cause.RECOMPUTE,
        site=(sites.most_common(1)[0][0].removeprefix(BACKWARD) or None) if sites else None,
        cost_s=cost_s,
        share=cost_s / work.pace.step_s,
        ranks=(work.rank,),
        evidence=(
            f"{100 * work.recomputed / total:.0f}% of the operations are of a forward that runs in the backward again",
            f"what it would keep takes {kept:,} bytes a rank at most; {rank.free_bytes:,} were free",
        ),
    )


def called_again_at(ranks: Sequence[RankSamples], site: str | None, *, is_looped: bool = False) -> str | None:
    """The later of the lines of one caller that both run a line in a forward; None where one alone does.

    The innermost such caller counts, and of its lines those that take half of the longest or more. Where a loop calls
    the forward again and again (`is_looped`), that is the line which calls the module.
    """
    spent: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    """By how many of the program's frames lie between, and the caller's line."""
    moment: dict[str, float] = defaultdict(float)
    calling: dict[str, float] = defaultdict(float)
    """Of lines that call the module whose forward has the line."""
    for rank in ranks:
        for sampled in rank.stacks:
            users = [index for index, place in enumerate(sampled.stack) if place.owner == USER]
            sites = [sampled.stack[index].site for index in users]
            if site not in sites or is_backward(sampled):
                continue
            own = len(sites) - 1 - sites[::-1].index(site)
            callers = sites[own + 1 :]
            for depth, caller in enumerate(callers):
                for step, (seconds, _) in sampled.steps.items():
                    index = step - rank.first_step
                    if step in sampled.at_s and 0 <= index < rank.num_steps:
                        spent[depth][caller] += seconds
                        moment[caller] += seconds * (sampled.at_s[step] - rank.bounds_s[index])
            if callers and any(map(is_module_call, sampled.stack[users[own] : users[own + 1]])):
                calling[callers[0]] += sum(seconds for seconds, _ in sampled.steps.values())
    for _, lines in sorted(spent.items()):
        most_s = max(lines.values())
        often = [line for line, seconds in lines.items() if seconds >= most_s / 2 and seconds > 0]
        if len(often) > 1:
            return max(often, key=lambda line: moment[line] / lines[line])
    return max(calling, key=lambda line: calling[line], default=None) if is_looped else None


def _is_looped(waste: Waste, rank: RankOperations) -> bool:
    """Whether each of FSDP's units is gathered again twice in a step or more often: in a forward too."""
    units = {unit_of(each) for each in waste.transfers if each.label}
    return bool(units) and len(waste.transfers) >= 2 * len(units) * rank.num_steps


def _recomputing_s(rank: RankSamples) -> float:
    """Seconds a step in which the thread stands in the forward that a backward has computed again."""
    total_s = 0.0
    for sampled in rank.stacks:
        inside = takewhile(lambda place: place.function != ENGINE, sampled.stack)
        if is_backward(sampled) and any(place.file.endswith(CHECKPOINT) for place in inside):
            total_s += sum(seconds for seconds, _ in sampled.steps.values())
    return total_s / max(rank.num_steps, 1)


def checkpointed_at(ranks: Sequence[RankSamples], sources: Sources) -> str | None:
    """The line of the program that has a forward computed again, by the time in it; None where none is seen.

    A method that does the same as its class's base asks for nothing. Where a library asks for it, the line is the one
    that switches it on there.
    """
    spent: dict[str, float] = defaultdict(float)
    for rank in ranks:
        for sampled in rank.stacks:
            inside = [i for i, place in enumerate(sampled.stack) if _is_checkpoint(place)]
            outer = sampled.stack[inside[-1] :] if inside else ()
            asking = (i for i, place in enumerate(outer) if place.owner == USER and not sources.is_of_base(place))
            index = next(asking, None)
            if index is None:
                continue
            is_asked = any(LIBRARY.search(place.file) for place in outer[:index])
            users = [place for place in outer if place.owner == USER]
            site = switched_on_at(users, rank, sources, CHECKPOINTING) if is_asked else None
            spent[site or outer[index].site] += sum(seconds for seconds, _ in sampled.steps.values())
    return max(spent, key=lambda site: spent[site]) if spent else None


def _is_checkpoint(place: Instruction) -> bool:
    return place.function == "checkpoint" and place.file.endswith(CHECKPOINT)


def _tensor_bytes(shapes: Sequence[Sequence[int]]) -> list[int]:
    """Bytes of tensors of these shapes, eight an element at most."""
    sizes = []
    for shape in shapes:
        size = 8 if shape else 0
        for dim in shape:
            size *= dim
        sizes.append(size)
    return sizes
