"""What a step waits for in its collectives, and why: from the calls of all ranks and the lines of their program. Pure.

[Note: exposed time]
A rank is exposed to a collective while its training thread stands in the call or in its wait. Up to the arrival of the
last rank that is the peer's lateness, after it the transfer. A transfer could have been hidden

* by issuing it earlier (`late_issue`): behind what the host does between the last use of its memory and the call;
* by waiting later (`early_wait`): behind what the host does between the wait and the next use of its memory;
* by another communicator (`same_lane`): while an earlier call of its group was still going on;
* by one call instead of many (`tiny_messages`): t = a + n / b is fitted to the calls of a group, and more than half of
  what the small ones of a line take is a (Hockney 1994).

How long that is: see [Note: what could hide a call]. A receive that its rank waits for at a line of its own is told as
`early_wait` too, with all of the wait: whoever the sender is, and however late, what comes behind the wait could go on
meanwhile. The same holds for a collective whose wait is a call of its own, and for one that could be issued earlier, by
all ranks: a rank that is late has issued it then.

Over gloo a transfer is made by threads of its rank. Where the ranks compute with all processors of the host, these take
what they use from the computing, wherever the transfer stands (`taken_s`): that much no other place hides, and a
transfer that is hidden and not needed costs it.

A barrier moves nothing: ranks that are late in turn lose in it what each is late by. Where the steps are shorter
without it, which they are not where the next collective makes the ranks meet anyway, it is `synchronize`.
"""

import ast
import bisect
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from emberward.events import Group
from emberward.findings import Cause
from emberward.lens._calls import OF_BACKWARD, Call, Line, RankCalls, calls_of, turns_of
from emberward.lens._samples import MIN_COST_S, MIN_SHARE, RankSamples, uncertainty
from emberward.lens._slowdown import excess_line
from emberward.lens._source import Sources

MIN_TINY = 4
"""Calls of a group at one line in a step, from which they count as many."""
MIN_LATE_STEPS = 0.8
"""Share of the steps in which one and the same rank is the last to come, for it to be late rather than noise."""
MIN_RANKED_STEPS = 5
STEPS_TOGETHER = 5
"""Whose meetings in the backward are judged as one: looks are some milliseconds apart and tell little of one step's."""
MIN_BARRIERS = 0.5
"""A step: a barrier every second step or less is for something that is done then, a save or a file."""


Slack = tuple[float, float]
"""Seconds by which a call could be issued earlier, and waited for later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """Time that a step is longer by for one reason at one line. `part`: of the cost, what could go at most.

    `issued_at`: file and line of the calls. `gain_s`: what the step would be shorter by, once it was replayed.
    `sure`: the share of that which its standard error over the steps leaves.
    `moved`: by how much the first call of a step could be issued earlier or waited for later, the second and so on.
    `transfer_s`: what of the cost is no wait for a rank; `busy_s`: what of the transfer takes the processors that the
    ranks compute with, wherever it stands, and of the waits for ranks what these lacked a processor for.
    """

    cause: Cause
    site: str
    issued_at: Line
    cost_s: float
    part: float
    moved: tuple[Slack, ...] = ()
    gain_s: float = 0.0
    sure: float = 1.0
    transfer_s: float = 0.0
    busy_s: float = 0.0
    share: float
    ranks: tuple[int, ...]
    waiting: tuple[int, ...]
    calls: float
    what: str
    longer_at: str | None = None
    """Where `site` deals out data: the line at which a rank takes longer for its part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The audit. `waits_s`: what each rank waits for late peers, seconds a step; `exposed_s`: all it is blocked.

    `met`: the calls of each meeting that was seen on every rank of its group.
    """

    found: tuple[Exposed, ...]
    waits_s: Mapping[int, float]
    exposed_s: Mapping[int, float]
    calls_per_step: float
    bytes_per_step: float
    met: tuple[tuple[Call, ...], ...]


def audit(
    ranks: Sequence[RankCalls],
    samples: Sequence[RankSamples],
    sources: Sources,
    hidden: Sequence[Sequence[Call]] = (),
    slack: Mapping[int, Mapping[Line, Sequence[Slack]]] = {},
    in_vain: Mapping[Line, Cause] = {},
    loads: Mapping[int, float] = {},
) -> Overlap:
    """What the steps of `samples` waited for in their collectives. Clocks are the host's own: of one host alone.

    `hidden`: meetings that no ring has and that stand at no line ([Note: meetings of the backward]). `slack`: of each
    rank, by line, that of each of a step's calls there. `in_vain`: lines whose calls need not be, and why not.
    `loads`: of each rank `load_of` all that it moves in a step, below Python too.
    """
    by_rank = {each.rank: each for each in samples if each.num_steps}
    inside = [
        call
        for rank in ranks
        if rank.rank in by_rank
        for call in calls_of(rank)
        if by_rank[rank.rank].bounds_s[0] <= call.issued_s and call.free_s <= by_rank[rank.rank].bounds_s[-1]
    ]
    met: dict[tuple[Group, int], list[Call]] = defaultdict(list)
    for call in inside:
        met[call.group, call.number].append(call)
    whole = {key: _received(calls) for key, calls in met.items() if len(calls) == len(key[0].ranks)}
    steps = {rank: each.num_steps for rank, each in by_rank.items()}
    step_s = {rank: each.measured_s / each.num_steps for rank, each in by_rank.items()}
    late: dict[int, float] = defaultdict(float)
    exposed: dict[int, float] = defaultdict(float)
    rest: dict[tuple[str, int], list[tuple[Call, float, float]]] = defaultdict(list)
    lateness: dict[int, list[tuple[Call, float]]] = defaultdict(list)
    for calls in [*whole.values(), *hidden]:
        last = max(calls, key=lambda call: call.issued_s)
        for call in calls:
            blocked = max(call.free_s - call.blocked_s, 0.0)
            if call.is_transfer:
                rest[call.file, call.line].append((call, 0.0, last.issued_s))
                continue
            waited = max(min(last.issued_s, call.free_s) - call.blocked_s, 0.0) if call is not last else 0.0
            late[call.rank] += waited / steps[call.rank]
            exposed[call.rank] += blocked / steps[call.rank]
            if waited:
                lateness[last.rank].append((call, waited))
            if call.file:
                rest[call.file, call.line].append((call, blocked - waited, last.issued_s))
    found = [*_late_peers(lateness, by_rank, step_s)]
    transfers = [each for calls_here in rest.values() for each in calls_here]
    ends_before = _ends_before(call for call, _, _ in transfers)
    for calls_here in rest.values():
        reason = _reason(calls_here, transfers, ends_before, by_rank, sources, slack, in_vain, loads)
        if reason is not None and reason.cost_s >= max(MIN_SHARE * max(step_s.values()), MIN_COST_S):
            found.append(reason)
    num_steps = max(steps.values(), default=1)
    one = min(by_rank, default=0)
    own = [call for call in inside if call.rank == one and not call.is_transfer]
    return Overlap(
        found=tuple(sorted(found, key=lambda each: -each.cost_s)),
        waits_s=dict(late),
        exposed_s=dict(exposed),
        calls_per_step=len(own) / num_steps,
        bytes_per_step=sum(call.num_bytes for call in own) / num_steps,
        met=tuple(tuple(calls) for calls in [*whole.values(), *hidden]),
    )


def _received(calls: list[Call]) -> list[Call]:
    """The calls of a meeting; a send has ended when its receiver has all, whenever its own rank asks for it."""
    if not calls[0].is_transfer:
        return calls
    last_s = next(call.ended_s for call in calls if call.rank == call.group.ranks[-1])
    return [replace(call, ended_s=max(min(call.ended_s, last_s), call.issued_s)) for call in calls]


def _late_peers(
    lateness: Mapping[int, Sequence[tuple[Call, float]]],
    samples: Mapping[int, RankSamples],
    step_s: Mapping[int, float],
) -> Iterable[Exposed]:
    """The rank for which the others wait in nearly every step (`MIN_LATE_STEPS`), in the backward: net of its waits."""
    totals: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    """Step, or some together -> last rank -> seconds that the others wait on average."""
    hidden = [(call, seconds) for waits in lateness.values() for call, seconds in waits if _is_of_backward(call)]
    width = STEPS_TOGETHER if hidden else 1
    for culprit, waits in lateness.items():
        for call, seconds in waits:
            step = _step_of(samples[call.rank], call.blocked_s) // width
            totals[step][culprit] += seconds / max(len(call.group.ranks) - 1, 1)
    latest = [max(by_culprit, key=lambda rank: by_culprit[rank]) for by_culprit in totals.values()]
    if len(latest) * width < MIN_RANKED_STEPS:
        return
    culprit = statistics.mode(latest)
    cost_s = sum(by_culprit.get(culprit, 0.0) for by_culprit in totals.values()) / samples[culprit].num_steps
    queues = {rank: each.queue_s / each.num_steps for rank, each in samples.items()}
    # What a rank lacks a processor for, more than the others do, is the host's doing and no line's of the program.
    seen_s, queued_s = cost_s, min(max(queues[culprit] - min(queues.values()), 0.0), cost_s)
    cost_s -= queued_s
    cost_s -= sum(seconds for call, seconds in hidden if call.rank == culprit) / samples[culprit].num_steps
    share = cost_s / step_s[culprit]
    if latest.count(culprit) < MIN_LATE_STEPS * len(latest) or cost_s < max(MIN_SHARE * step_s[culprit], MIN_COST_S):
        return
    waits = lateness[culprit]
    worst = max(waits, key=lambda each: each[1])[0]
    line = excess_line([*samples.values()], culprit)
    if line is None or line.more_s < cost_s / 2:
        # It comes last, and yet spends its time as the others do: that is the host's doing, or chance.
        return
    yield Exposed(
        cause=Cause.LATE_PEER,
        site=line.site,
        issued_at=(worst.file, worst.line),
        cost_s=cost_s,
        part=line.part * cost_s / seen_s,
        share=share,
        ranks=(culprit,),
        waiting=tuple(sorted({call.rank for call, _ in waits})),
        calls=len(waits) / samples[culprit].num_steps,
        what=worst.op if _is_of_backward(worst) else f"{worst.op} {worst.group}",
    )


def _is_of_backward(call: Call) -> bool:
    return call.group.index == OF_BACKWARD


def _step_of(samples: RankSamples, at_s: float) -> int:
    return bisect.bisect_right(samples.bounds_s, at_s)


def _reason(
    here: Sequence[tuple[Call, float, float]],
    transfers: Sequence[tuple[Call, float, float]],
    ends_before: Mapping[tuple[int, Group, int], float],
    samples: Mapping[int, RankSamples],
    sources: Sources,
    slack: Mapping[int, Mapping[Line, Sequence[Slack]]],
    in_vain: Mapping[Line, Cause],
    loads: Mapping[int, float],
) -> Exposed | None:
    """Why the transfers that one line issues are exposed; None when nothing could have hidden them."""
    by_rank: dict[int, list[tuple[Call, float, float]]] = defaultdict(list)
    for each in here:
        by_rank[each[0].rank].append(each)
    costs = {rank: sum(rest for _, rest, _ in each) / samples[rank].num_steps for rank, each in by_rank.items()}
    rank = max(costs, key=lambda each: (costs[each], sum(call.free_s - call.blocked_s for call, _, _ in by_rank[each])))
    own = by_rank[rank]
    call = next((each for each, _, _ in own if each.op != "barrier"), own[0][0])
    cost_s, number = costs[rank], len(own) / samples[rank].num_steps
    tiny = [(each, rest) for each, rest, _ in own if each.num_bytes <= SMALL_BYTES]
    start_s = _start_up_s(
        [(each, rest) for each, rest, _ in transfers if each.group == call.group and each.rank == rank]
    )
    behind_s = _behind_s(own, ends_before) / samples[rank].num_steps
    asks = _asks_itself(call, sources)
    slacks = {each: tuple(slack.get(each, {}).get((call.file, call.line), ()) if asks else ()) for each in by_rank}
    moved = slacks[rank]
    hideable = _Hideable(by_rank, slacks, samples)
    early, later = _longest(by_rank, samples, hideable.before_s), _longest(by_rank, samples, hideable.after_s)
    before_s, after_s = (sum(each) / samples[rank].num_steps for each in (early, later))
    waits = _longest(by_rank, samples, lambda each, rest: _waited_s(each))
    # What hides it either way, the transfer or the wait for the other ranks, is told by the longer time.
    is_longer = sum(before for before, _ in moved) > sum(after for _, after in moved)
    is_late = is_longer and before_s > after_s / 2
    if call.op == "barrier":
        late = _longest(by_rank, samples, lambda each, rest: _waited_s(each) - rest)
        return _barrier(call, sum(late) / samples[rank].num_steps, number, samples, costs)
    cause, gain_s, sure, busy_s = Cause.NONE, 0.0, 1.0, 0.0
    num_tiny, tiny_s = len(tiny) / samples[rank].num_steps, sum(rest for _, rest in tiny) / samples[rank].num_steps
    if (call.file, call.line) in in_vain:
        cause, cost_s = in_vain[call.file, call.line], sum(waits) / samples[rank].num_steps
        gain_s = cost_s
    elif num_tiny >= MIN_TINY and start_s > tiny_s / num_tiny / 2:
        cause, gain_s = Cause.TINY_MESSAGES, min(start_s * (num_tiny - 1), tiny_s)
    elif behind_s > cost_s / 2:
        cause, gain_s = Cause.SAME_LANE, behind_s
    elif max(before_s, after_s) > 0:
        cause = Cause.LATE_ISSUE if is_late else Cause.EARLY_WAIT
        gain_s = before_s if is_late else after_s
        sure = 1 - uncertainty(early if is_late else later, samples[rank].num_steps)
        load = sum(load_of(each.num_bytes) for each, _, _ in own) / samples[rank].num_steps
        busy_s = min(taken_s(samples[rank], len(samples), load, loads.get(rank, 0.0)), max(cost_s, 0.0))
        busy_s += min(_queued_s(samples), max(gain_s - cost_s, 0.0))
        cost_s = max(cost_s, gain_s)
        moved = tuple((before, 0.0) if is_late else (0.0, after) for before, after in moved)
    if cause is Cause.NONE or gain_s < max(MIN_SHARE * samples[rank].measured_s / samples[rank].num_steps, MIN_COST_S):
        return None
    site = f"{call.wait_file}:{call.wait_line}" if cause is Cause.EARLY_WAIT else f"{call.file}:{call.line}"
    return Exposed(
        cause=cause,
        site=site,
        issued_at=(call.file, call.line),
        cost_s=cost_s,
        part=gain_s / cost_s,
        sure=sure,
        transfer_s=costs[rank],
        busy_s=busy_s,
        moved=moved,
        share=cost_s * samples[rank].num_steps / samples[rank].measured_s,
        ranks=tuple(sorted(each for each, cost in costs.items() if cost >= costs[rank] / 2)),
        waiting=(),
        calls=number,
        what=f"{call.op} {call.lane_name}, {call.num_bytes:,} bytes",
    )


def load_of(num_bytes: int) -> float:
    """What a transfer is to the threads that make it, in bytes: its start is as dear as `SMALL_BYTES`."""
    return float(num_bytes + SMALL_BYTES)


def taken_s(rank: RankSamples, num_ranks: int, load: float, all_load: float) -> float:
    """Seconds a step that so much of all that a rank moves takes from the processors with which the ranks compute.

    By its share of what the process's other threads took, as far as there is no processor besides those of the ranks'
    own threads. None on a device, which moves its own data.
    """
    if rank.device != "cpu" or not rank.cores or all_load <= 0:
        return 0.0
    free = min(max(rank.cores / num_ranks - rank.threads, 0.0), 1.0)
    return (1 - free) * rank.others_s / rank.num_steps * min(load / all_load, 1.0)


ByRank = Mapping[int, Sequence[tuple[Call, float, float]]]


def _waited_s(call: Call) -> float:
    return max(call.free_s - call.blocked_s, 0.0)


def _longest(
    by_rank: ByRank, samples: Mapping[int, RankSamples], seconds: Callable[[Call, float], float]
) -> list[float]:
    """Of each step with such calls the seconds of them all on the rank that has most then.

    Ranks that wait for each other in turn, from step to step, make every step longer. `seconds` is given a call and
    what of its wait is the transfer.
    """
    found: dict[int, float] = defaultdict(float)
    for rank, own in by_rank.items():
        of_rank: dict[int, float] = defaultdict(float)
        for call, rest, _ in own:
            of_rank[_step_of(samples[rank], call.issued_s)] += seconds(call, rest)
        for step, each in of_rank.items():
            found[step] = max(found[step], each)
    return [*found.values()]


def _queued_s(samples: Mapping[int, RankSamples]) -> float:
    """Seconds a step in which the rank that lacks a processor most had none: the host's doing, and no line's."""
    return max(each.queue_s / each.num_steps for each in samples.values())


class _Hideable:
    """What of a call an earlier issue could hide, and a later wait."""

    def __init__(
        self, by_rank: ByRank, slacks: Mapping[int, Sequence[Slack]], samples: Mapping[int, RankSamples]
    ) -> None:
        self._slacks = slacks
        self._turns = {
            rank: turns_of((call for call, _, _ in own), samples[rank].bounds_s) for rank, own in by_rank.items()
        }

    def _slack(self, call: Call) -> Slack:
        moved, turn = self._slacks[call.rank], self._turns[call.rank][call.group, call.number]
        return moved[turn] if turn < len(moved) else (0.0, 0.0)

    def before_s(self, call: Call, rest_s: float) -> float:
        """By an earlier issue."""
        del rest_s
        return min(self._slack(call)[0], _waited_s(call))

    def after_s(self, call: Call, rest_s: float) -> float:
        """By a later wait: for a late rank that of a wait of its own alone."""
        return min(self._slack(call)[1], rest_s if call.blocks else _waited_s(call))


def _barrier(
    call: Call, late_s: float, calls: float, samples: Mapping[int, RankSamples], ranks: Iterable[int]
) -> Exposed | None:
    """A barrier in most steps, and what its rank waits there for others, as far as those had a processor."""
    own = samples[call.rank]
    cost_s = late_s - _queued_s(samples)
    if calls < MIN_BARRIERS or cost_s <= 0:
        return None
    return Exposed(
        cause=Cause.SYNCHRONIZE,
        site=f"{call.file}:{call.line}",
        issued_at=(call.file, call.line),
        cost_s=cost_s,
        part=1.0,
        share=cost_s * own.num_steps / own.measured_s,
        ranks=tuple(sorted(ranks)),
        waiting=(),
        calls=calls,
        what=f"barrier {call.lane_name}",
    )


def _behind_s(own: Sequence[tuple[Call, float, float]], ends_before: Mapping[tuple[int, Group, int], float]) -> float:
    """Seconds of the exposed transfers in which an earlier call of the same group and rank was still going on."""
    total = 0.0
    for call, rest, arrival_s in own:
        begin = max(call.blocked_s, arrival_s)
        end = min(ends_before[call.rank, call.group, call.number], call.free_s)
        total += min(max(end - begin, 0.0), rest)
    return total


def _ends_before(calls: Iterable[Call]) -> dict[tuple[int, Group, int], float]:
    """For each call when the last of those before it in its group ended on its rank; minus infinity where none did."""
    found: dict[tuple[int, Group, int], float] = {}
    last: dict[tuple[int, Group], float] = defaultdict(lambda: -math.inf)
    for call in sorted(calls, key=lambda call: call.number):
        found[call.rank, call.group, call.number] = last[call.rank, call.group]
        if call.blocked_s != call.ended_s:
            last[call.rank, call.group] = max(last[call.rank, call.group], call.ended_s)
    return found


def _start_up_s(calls: Sequence[tuple[Call, float]]) -> float:
    """a of t = a + n / b, the line of least squares through what the exposed transfers took, by their packets.

    Their mean where they have one size, or take no longer for being larger. 0 where none is small: a line through large
    ones alone says nothing of its start.
    """
    if min((call.num_bytes for call, _ in calls), default=SMALL_BYTES + 1) > SMALL_BYTES:
        return 0.0
    packets, seconds = (
        [-(-call.num_bytes // PACKET_BYTES) for call, _ in calls],
        [max(taken, 0.0) for _, taken in calls],
    )
    slope, start_s = statistics.linear_regression(packets, seconds) if len({*packets}) > 1 else (0.0, 0.0)
    return max(start_s, 0.0) if slope > 0 else statistics.fmean(seconds)


PACKET_BYTES = 1448
"""What one packet of TCP carries over Ethernet (1,500 less the headers of IPv4 and TCP with its times): less is one."""
SMALL_BYTES = 64 << 10
"""Below this a start is most of a transfer even at 1 GB/s, for starts of 0.1 ms and more, as gloo takes here."""


def _asks_itself(call: Call, sources: Sources) -> bool:
    """Whether a line of the program makes the call, and nothing that it calls does (FSDP, a tensor's own methods)."""
    source = sources.of(call.file)
    return any(
        isinstance(node, ast.Call) and source.named(node).removeprefix("i").startswith(_ISSUES)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.expr) and node.lineno <= call.line <= (node.end_lineno or 0)
    )


_ISSUES = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter",
    "send", "recv", "batch_isend_irecv",
)  # fmt: skip
