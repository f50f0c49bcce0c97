"""Proofs for every number of micro-batches or steps, from finitely many judged.

[Note: every number of steps]
A run of n steps may be executed one step after the other. If one step ends from the start's state and leaves that state
behind (credits back, every send received), each next step ends as well, so one complete execution of n steps exists;
the fixpoint is unique ([Note: call numbers] in _table.py), so every execution completes.

[Note: every number of micro-batches]
Let F(n) be the trace of n micro-batches without the waits at the ends of its lanes: nothing follows them, so they
end if what they wait for does. Let F(n + q) be F(n) with a block of d(lane) events put into each lane: the two
agree from the start up to position c(lane), and from the end, counting references with the blocks, for s(lane)
events, with c + s at least the lane's length. Run F(n) in rounds. If the lanes stand at p in one round and at p + d
in a later one, with length - s <= p and p + d <= c everywhere, then F(n + q) comes to p + d as well, and what it
has left to do from there is what F(n) has left from p. So F(n + q) ends if F(n) does; by induction F(n + jq) ends
for every j, as long as the family goes on in the same pattern. That it does beyond the counts compared is an
assumption that the proof names. Families with two loops that grow (GPipe: all forwards, then all backwards) do not
have this form and stay unproved.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from emberward.events import Acquire, Compute, Event, Lane, Recv, Ref, Release, Send, Trace, Wait
from emberward.match._check import check
from emberward.match._simulate import simulate
from emberward.match._table import Table, compile_trace
from emberward.match._verdict import RENDEZVOUS, BatchCompletion, SendSemantics, Verdict

MAX_PERIOD = 8
"""Most micro-batches in a period."""
MAX_LEAK_STEPS = 100_000
"""Most steps that are looked at until a leaking credit is used up."""

_LaneKey = tuple[int, Lane]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicProof:
    """What is known about every count n >= `first`.

    `is_proved`: all are safe. `base` and `period`: F(base) and F(base + period) were compared; all smaller counts were
    judged one by one. `failing`: the least count found unsafe. Neither proved nor failing: nothing is known beyond the
    counts judged; `reason` says why. `verdict` is that of the failing count, else of the largest one judged.
    """

    is_proved: bool
    first: int
    base: int | None
    period: int | None
    failing: int | None
    reason: str
    verdict: Verdict


def repeated(trace: Trace, num_steps: int) -> Trace:
    """`num_steps` times `trace`, each lane's events one step after the other."""
    events = {}
    for rank, program in trace.events.items():
        lengths: dict[Lane, int] = {}
        for event in program:
            lengths[event.lane] = lengths.get(event.lane, 0) + 1
        events[rank] = tuple(_moved(event, lengths, step) for step in range(num_steps) for event in program)
    return replace(trace, events=events)


def _moved(event: Event, lengths: Mapping[Lane, int], step: int) -> Event:
    body = event.body
    if isinstance(body, Wait):
        body = Wait(on=_ref(body.on, lengths, step))
    phase = event.phase if event.phase.step is None else replace(event.phase, step=event.phase.step + step)
    return replace(
        event,
        position=event.position + step * lengths[event.lane],
        body=body,
        phase=phase,
        after=tuple(_ref(ref, lengths, step) for ref in event.after),
    )


def _ref(ref: Ref, lengths: Mapping[Lane, int], step: int) -> Ref:
    return Ref(lane=ref.lane, position=ref.position + step * lengths.get(ref.lane, 0))


def prove_steps(trace: Trace, *, sends: SendSemantics = RENDEZVOUS) -> PeriodicProof:
    """Whether any number of repetitions of `trace`, one step, is safe. See [Note: every number of steps]."""
    verdict = check(trace, sends=sends)
    if not verdict.is_safe:
        return _proof(first=1, failing=1, reason="one step is not safe", verdict=verdict)
    leaks = _leaks(trace)
    if not leaks:
        return _proof(first=1, base=1, period=1, reason="a step leaves the state that it found", verdict=verdict)
    (rank, name), (capacity, lost) = min(leaks.items(), key=lambda item: item[1][0] // item[1][1])
    why = f"credit {name} of rank {rank} loses {lost} of {capacity} in each step"
    for count in range(2, min(capacity // lost + 3, MAX_LEAK_STEPS)):
        verdict = check(repeated(trace, count), sends=sends)
        if not verdict.is_safe:
            return _proof(first=1, failing=count, reason=why, verdict=verdict)
    return _proof(first=1, reason=why, verdict=verdict)


def _leaks(trace: Trace) -> dict[tuple[int, str], tuple[int, int]]:
    """For each credit that a step does not give back: (capacity, units lost a step)."""
    found = {}
    for (rank, name), lost in _balances(trace).items():
        if lost > 0:
            found[(rank, name)] = (trace.credits.get((rank, name), trace.credits.get((None, name), 0)), lost)
    return found


def _balances(trace: Trace) -> dict[tuple[int, str], int]:
    """For each credit of a rank, how many more units are taken than given back; below 0 where more are given."""
    balance: dict[tuple[int, str], int] = {}
    for event in trace:
        body = event.body
        if isinstance(body, Acquire | Release):
            key = (event.rank, body.credit)
            balance[key] = balance.get(key, 0) + (1 if isinstance(body, Acquire) else -1)
    return balance


def _proof(
    *,
    first: int,
    reason: str,
    verdict: Verdict,
    base: int | None = None,
    period: int | None = None,
    failing: int | None = None,
) -> PeriodicProof:
    return PeriodicProof(
        is_proved=base is not None,
        first=first,
        base=base,
        period=period,
        failing=failing,
        reason=reason,
        verdict=verdict,
    )


def prove_periodic(
    build: Callable[[int], Trace], *, first: int, up_to: int = 64, sends: SendSemantics = RENDEZVOUS
) -> PeriodicProof:
    """Whether `build(n)` is safe for every n >= `first`. See [Note: every number of micro-batches].

    Judges every count from `first` until the proof closes, at most up to `up_to`, where it gives up unproved.
    """
    family = _Family(build, sends)
    verdict = family.verdict(first)
    reason = "no period was found"
    for count in range(first, up_to + 1):
        verdict = family.verdict(count)
        if not verdict.is_safe:
            return _proof(first=first, failing=count, reason=f"count {count} is not safe", verdict=verdict)
        for period in range(1, min(MAX_PERIOD, up_to - count) + 1):
            closes, why = _closes(family.core(count), family.core(count + period), sends)
            reason = why if period == 1 else reason
            if closes:
                return _close(family, first, count, period)
    return _proof(first=first, reason=f"not proved beyond {up_to}: {reason}", verdict=verdict)


class _Family:
    """Traces by their count, each built and judged once."""

    def __init__(self, build: Callable[[int], Trace], sends: SendSemantics) -> None:
        self._build = build
        self._sends = sends
        self._traces: dict[int, Trace] = {}
        self._cores: dict[int, Trace] = {}
        self._verdicts: dict[int, Verdict] = {}

    def trace(self, count: int) -> Trace:
        if count not in self._traces:
            self._traces[count] = self._build(count)
        return self._traces[count]

    def core(self, count: int) -> Trace:
        if count not in self._cores:
            self._cores[count] = _without_last_waits(self.trace(count))
        return self._cores[count]

    def verdict(self, count: int) -> Verdict:
        if count not in self._verdicts:
            verdict = check(self.trace(count), sends=self._sends, with_cure=False, with_hazards=False)
            self._verdicts[count] = verdict
        return self._verdicts[count]


def _without_last_waits(trace: Trace) -> Trace:
    """The trace without waits behind which their lanes have nothing else and to which nothing refers."""
    events = {}
    for rank, program in trace.events.items():
        named = {(ref.lane, ref.position) for event in program for ref in _points(event)}
        closed: set[Lane] = set()
        kept = []
        for event in reversed(program):
            is_last = event.lane not in closed
            if is_last and isinstance(event.body, Wait) and (event.lane, event.position) not in named:
                continue
            closed.add(event.lane)
            kept.append(event)
        events[rank] = tuple(reversed(kept))
    return replace(trace, events=events)


def _close(family: _Family, first: int, base: int, period: int) -> PeriodicProof:
    """Judges each of the counts base .. base + period and, if all are safe, concludes."""
    verdict = family.verdict(base)
    for count in range(base, base + period + 1):
        verdict = family.verdict(count)
        if not verdict.is_safe:
            return _proof(first=first, failing=count, reason=f"count {count} is not safe", verdict=verdict)
    reason = f"from {base} on, every {period} more add one block to each lane and the run repeats itself"
    pattern = f"the family goes on beyond {base + period} as between {base} and {base + period}"
    verdict = replace(verdict, assumptions=(*verdict.assumptions, pattern))
    return _proof(first=first, base=base, period=period, reason=reason, verdict=verdict)


def _closes(small: Trace, large: Trace, sends: SendSemantics) -> tuple[bool, str]:
    """(whether the run of `small` repeats itself by exactly the blocks that `large` has more, else why not)."""
    left, right = _lanes(small), _lanes(large)
    if left.keys() != right.keys():
        return False, "the number of lanes changes"
    blocks = {key: len(right[key]) - len(left[key]) for key in left}
    if min(blocks.values(), default=0) < 0 or max(blocks.values(), default=0) == 0:
        return False, "lanes do not grow"
    heads, tails = {}, {}
    for key in left:
        heads[key] = _common_head(left[key], right[key])
        tails[key] = _common_tail(left[key], right[key], key[0], blocks)
        if heads[key] + tails[key] < len(left[key]):
            return False, f"rank {key[0]}, lane {key[1]}: the longer program is not the shorter one with a block added"
    before, after = _balances(small), _balances(large)
    if any(taken > before.get(key, 0) for key, taken in after.items()):
        return False, "a credit loses units in each period"
    low = {key: len(left[key]) - tails[key] for key in left}
    table = compile_trace(small, BatchCompletion.TOGETHER)
    return _recurs(table, sends, blocks, low, heads)


def _lanes(trace: Trace) -> dict[_LaneKey, list[Event]]:
    found: dict[_LaneKey, list[Event]] = {}
    for event in trace:
        found.setdefault((event.rank, event.lane), []).append(event)
    return found


def _essence(lane: list[Event], index: int) -> object:
    """What must be equal in two events besides where they point to: names of tensors and kernels may count on."""
    body = lane[index].body
    match body:
        case Send() | Recv():
            before = lane[index - 1].body if index > 0 else None
            joined = body.batch is not None and isinstance(before, Send | Recv) and before.batch == body.batch
            return replace(body, batch=None if body.batch is None else 0, tensor=None), joined
        case Compute():
            return Compute
        case Wait():
            return Wait
        case _:
            return body


def _points(event: Event) -> tuple[Ref, ...]:
    return (event.body.on, *event.after) if isinstance(event.body, Wait) else event.after


def _common_head(left: list[Event], right: list[Event]) -> int:
    n = 0
    while n < len(left) and _essence(left, n) == _essence(right, n) and _points(left[n]) == _points(right[n]):
        n += 1
    return n


def _common_tail(left: list[Event], right: list[Event], rank: int, blocks: Mapping[_LaneKey, int]) -> int:
    n = 0
    while n < len(left):
        a, b = len(left) - 1 - n, len(right) - 1 - n
        moved = tuple(
            Ref(lane=ref.lane, position=ref.position + blocks.get((rank, ref.lane), 0)) for ref in _points(left[a])
        )
        if _essence(left, a) != _essence(right, b) or moved != _points(right[b]):
            break
        n += 1
    return n


def _recurs(
    table: Table,
    sends: SendSemantics,
    blocks: Mapping[_LaneKey, int],
    low: Mapping[_LaneKey, int],
    high: Mapping[_LaneKey, int],
) -> tuple[bool, str]:
    """Whether two rounds of the run differ by exactly one block in each lane, inside the range that repeats."""
    lanes: dict[_LaneKey, list[int]] = {key: [] for key in blocks}
    for e, event in enumerate(table.events):
        lanes[(event.rank, event.lane)].append(e)
    keys = list(lanes)
    leader = next(i for i, key in enumerate(keys) if blocks[key] > 0)
    standing = [0] * len(keys)
    seen: dict[tuple[object, ...], tuple[int, list[int]]] = {}
    found: list[bool] = []

    def look(done: bytearray) -> None:
        partial = []
        for i, key in enumerate(keys):
            ids = lanes[key]
            while standing[i] < len(ids) and done[ids[standing[i]]]:
                standing[i] += 1
            ahead = ids[standing[i] : standing[i] + 1]
            unit = table.unit_events[table.unit[ahead[0]]] if ahead else ()
            partial.append(tuple(done[e] for e in unit) if len(unit) > 1 else ())
        if found:
            return
        turn = standing[leader] // blocks[keys[leader]]
        state = (*(p - turn * blocks[key] for p, key in zip(standing, keys, strict=True)), *partial)
        before = seen.get(state)
        if before is not None and turn == before[0] + 1:
            inside = zip(before[1], standing, keys, strict=True)
            if all(low[key] <= p and q <= high[key] for p, q, key in inside):
                found.append(True)
        seen[state] = (turn, list(standing))

    simulate(table, sends, after_round=look)
    return bool(found), "the run does not repeat itself before it drains"
