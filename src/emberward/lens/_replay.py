"""What a step would take without something: the measured steps as a list of events, run again with a clock. Pure.

[Note: replay]
Each rank's training thread is a lane: its own time between calls, and its waits. A call has its group's lane, whether
the thread waits for it at once or later. It ends after the last rank has come and what stands before it in its lane has
ended, plus the time that it took after that when it was measured. A send that ended before its receiver came was taken
by a buffer: it waits for nobody. So a stall that is taken out of one rank lets the
calls after it come earlier only as far as the other ranks do, and what a call hid before is seen when that is gone.

The gain is the difference of two runs, with and without. How far the run of what was measured is off says how good the
list is. A stall is taken out of the host's time around the moment at which it was seen on average.
"""

import bisect
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from emberward.events import (
    Barrier,
    Body,
    Compute,
    Event,
    Group,
    Lane,
    LaneKind,
    Observer,
    Ref,
    StoreSet,
    StoreWait,
    Trace,
    Wait,
)
from emberward.findings import Cause
from emberward.lens._calls import Call, Line, turns_of
from emberward.lens._overlap import Exposed, Slack
from emberward.lens._samples import OURS, USER, Instruction, RankSamples
from emberward.lens._slowdown import loop_line
from emberward.match import Clockwork, Timed

MAX_EVENTS = 20_000
"""Of a replay: of longer profiles the first steps are replayed."""
EVENTS_OF_A_CALL = 6
"""At most: its issue, itself, that its numbers are there, its wait, and the host's own time before each of the two."""
HOST = Lane(kind=LaneKind.HOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Seconds that one rank would not spend, around a moment of its clock."""

    at_s: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPart:
    """What a step's length consists of: seconds a step on one rank. `lane`: host, or the group of a call."""

    rank: int
    lane: str
    what: str
    seconds: float


@dataclass(slots=True)
class _Act:
    """One thing of a rank's host: its own time (no call), the issue of a call, or a wait for it."""

    began_s: float
    seconds: float = 0.0
    call: Call | None = None
    is_wait: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """What is other than it was measured. `moved`: for the calls of a line, the first of each step, the second and so
    on, seconds by which it is issued earlier and waited for later. `own_lane`: lines whose calls get a lane of their
    own. `dropped`: lines whose calls are not made. `joined`: lines of whose calls in a step the last alone is made."""

    cuts: Mapping[int, Sequence[Cut]] = field(default_factory=dict)
    moved: Mapping[Line, Sequence[Slack]] = field(default_factory=dict)
    own_lane: frozenset[Line] = frozenset()
    dropped: frozenset[Line] = frozenset()
    joined: frozenset[Line] = frozenset()
    keeps_order: bool = False
    """Whether calls that are issued earlier pass no others."""


class Replay:
    """The steps of `samples` with the calls that every member of their group has; see [Note: replay]."""

    def __init__(self, met: Iterable[Sequence[Call]], samples: Sequence[RankSamples]) -> None:
        self._samples = {rank.rank: rank for rank in samples if rank.num_steps}
        meetings = [tuple(calls) for calls in met]
        measured = min((rank.num_steps for rank in self._samples.values()), default=0)
        share = MAX_EVENTS / max(EVENTS_OF_A_CALL * sum(map(len, meetings)), 1)
        self.num_steps = min(measured, max(int(share * measured), 1))
        self._bounds = {rank: each.bounds_s[: self.num_steps + 1] for rank, each in self._samples.items()}
        self._begin_s = min((bounds[0] for bounds in self._bounds.values()), default=0.0)
        self._calls: dict[int, list[Call]] = defaultdict(list)
        self._arrived_s: dict[tuple[Group, int], dict[int, float]] = {}
        self._act_of: dict[tuple[int, Ref], _Act] = {}
        """The acts of the events of what was measured."""
        self._index: dict[tuple[Group, int], int] = {}
        """Each meeting is a group of its own, so that it stays the same one where its call is moved."""
        self._buffered: set[tuple[Group, int]] = set()
        self._took_s = self._transfers([calls for calls in meetings if self._is_inside(calls)])
        try:
            self._usual = self._timed(Edit())
        except ValueError:
            # Calls that no order of one host thread and its lanes explains: what is left is each rank's own time.
            self._calls.clear()
            self._act_of.clear()
            self._usual = self._timed(Edit())

    def _is_inside(self, calls: Sequence[Call]) -> bool:
        ends = self._bounds
        return all(ends[c.rank][0] <= c.issued_s and c.free_s <= ends[c.rank][-1] for c in calls)

    def _transfers(self, meetings: list[tuple[Call, ...]]) -> dict[tuple[int, Group, int], float]:
        """What each call took on its rank once all had come and its lane was free."""
        took: dict[tuple[int, Group, int], float] = {}
        lane_s: dict[tuple[int, Group], float] = {}
        for calls in sorted(meetings, key=lambda calls: min(call.issued_s for call in calls)):
            free = {call.rank: max(call.issued_s, lane_s.get((call.rank, call.group), 0.0)) for call in calls}
            met = calls[0].group, calls[0].number
            self._index[met] = len(self._index)
            self._arrived_s[met] = {call.rank: call.issued_s for call in calls}
            buffered = _buffered(calls)
            if buffered is not None:
                self._buffered.add(met)
            for call in calls:
                self._calls[call.rank].append(call)
                others = free.values() if buffered is None else (free[call.rank], buffered.ended_s)
                ready = free[call.rank] if call is buffered else max(others)
                took[call.rank, call.group, call.number] = max(call.ended_s - ready, 0.0)
                lane_s[call.rank, call.group] = call.ended_s
        return took

    @property
    def measured_s(self) -> float:
        """A step of the replayed ones, as it was measured."""
        last = max((bounds[-1] for bounds in self._bounds.values()), default=0.0)
        return (last - self._begin_s) / max(self.num_steps, 1)

    @property
    def step_s(self) -> float:
        """A step as the replay of what was measured gives it."""
        return self._usual.total_s / max(self.num_steps, 1)

    def gain_s(self, edit: Edit) -> float:
        """What a step would be shorter by; never negative, and 0 for an edit in which ranks wait for each other.

        Where they do so because one rank has more time before its calls than another and lets one pass, none passes.
        """
        try:
            total_s = self._timed(edit).total_s
        except ValueError:
            is_last = edit.keeps_order or not edit.moved
            return 0.0 if is_last else self.gain_s(replace(edit, keeps_order=True))
        return max(self._usual.total_s - total_s, 0.0) / max(self.num_steps, 1)

    def middle_s(self, rank: int, step: int) -> float | None:
        """The middle of a rank's step; None where it is not replayed."""
        at = step - self._samples[rank].first_step
        bounds = self._bounds[rank]
        return (bounds[at] + bounds[at + 1]) / 2 if 0 <= at < len(bounds) - 1 else None

    def without(self, exposed: Exposed) -> float:
        """What a step would be shorter by if what exposes the calls were not so."""
        line = exposed.issued_at
        match exposed.cause:
            case Cause.LATE_PEER:
                (culprit,) = exposed.ranks
                return self.gain_s(Edit(cuts={culprit: [*self._lateness(culprit, exposed.part)]}))
            case Cause.IMBALANCE if exposed.ranks:
                (longest,) = exposed.ranks
                return self.gain_s(Edit(cuts={longest: [*self._in_each_step(longest, exposed.part * exposed.cost_s)]}))
            case Cause.IMBALANCE:
                return self.gain_s(Edit(cuts={rank: [*self._over_mean(rank, exposed.part)] for rank in self._samples}))
            case Cause.LATE_ISSUE | Cause.EARLY_WAIT:
                return max(min(self.gain_s(Edit(moved={line: exposed.moved})), exposed.cost_s) - exposed.busy_s, 0.0)
            case Cause.SYNCHRONIZE | Cause.UNUSED_RESULT | Cause.REDUCED_TWICE | Cause.REDUNDANT_WORK:
                return min(self.gain_s(Edit(dropped=frozenset({line}))), exposed.cost_s)
            case Cause.SAME_LANE:
                return self.gain_s(Edit(own_lane=frozenset({line})))
            case _:
                cuts = {rank: [*self._asking(rank, line, 1 - 1 / max(exposed.calls, 1.0))] for rank in self._samples}
                return self.gain_s(Edit(cuts=cuts, joined=frozenset({line})))

    def _asking(self, rank: int, line: Line, part: float) -> Iterator[Cut]:
        """What a rank spends in torch.distributed's own Python for the calls of a line, besides its waits for them."""
        samples = self._samples[rank]
        waits_s: dict[int, float] = defaultdict(float)
        for call in self._calls[rank]:
            if (call.file, call.line) == line:
                waits_s[bisect.bisect_right(self._bounds[rank], call.issued_s) - 1] += call.free_s - call.blocked_s
        spent: dict[int, list[Cut]] = defaultdict(list)
        for sampled in samples.stacks:
            if _asks_at(sampled.stack, line):
                for step, (seconds, _) in sampled.steps.items():
                    at_s = sampled.at_s.get(step, self.middle_s(rank, step))
                    if at_s is not None and 0 <= step - samples.first_step < self.num_steps:
                        spent[step - samples.first_step].append(Cut(at_s=at_s, seconds=seconds))
        for index, cuts in spent.items():
            total_s = sum(cut.seconds for cut in cuts)
            rest = part * max(1 - waits_s[index] / total_s, 0.0) if total_s else 0.0
            yield from (replace(cut, seconds=rest * cut.seconds) for cut in cuts)

    def _in_each_step(self, rank: int, seconds: float) -> Iterator[Cut]:
        """So much less of a rank's own time in each step."""
        for begin_s, end_s in pairwise(self._bounds[rank]):
            yield Cut(at_s=(begin_s + end_s) / 2, seconds=seconds)

    def _lateness(self, culprit: int, part: float) -> Iterator[Cut]:
        """What a rank comes later than the last of the others, where it comes last."""
        for call in self._calls[culprit]:
            others = self._arrived_s[call.group, call.number]
            last_s = max((at_s for rank, at_s in others.items() if rank != culprit), default=call.issued_s)
            if call.issued_s > last_s:
                yield Cut(at_s=call.issued_s, seconds=part * (call.issued_s - last_s))

    def _over_mean(self, rank: int, part: float) -> Iterator[Cut]:
        """What a rank comes later than all do on average: of work that is dealt evenly."""
        for call in self._calls[rank]:
            mean_s = statistics.fmean(self._arrived_s[call.group, call.number].values())
            if call.issued_s > mean_s and not call.is_transfer:
                yield Cut(at_s=call.issued_s, seconds=part * (call.issued_s - mean_s))

    def path(self) -> tuple[PathPart, ...]:
        """What the step's length consists of on the critical path of the replay, the longest part first."""
        parts: dict[tuple[int, str, str], float] = defaultdict(float)
        seen = {rank: _lines_seen(each) for rank, each in self._samples.items()}
        for event, seconds in self._usual.critical_path():
            act = self._act_of.get((event.rank, event.ref))
            if act is None or seconds <= 0:
                continue
            if act.call is not None:
                call = act.call
                what = f"{call.op} at {call.file}:{call.line}" if call.file else call.op
                parts[event.rank, call.lane_name, what] += seconds
                continue
            times, lines = seen[event.rank]
            here = lines[bisect.bisect_left(times, act.began_s) : bisect.bisect_right(times, act.began_s + act.seconds)]
            total_s = sum(spent_s for _, spent_s in here)
            for site, spent_s in here:
                parts[event.rank, str(HOST), site] += seconds * spent_s / total_s
            if not here:
                parts[event.rank, str(HOST), "between calls"] += seconds
        found = [
            PathPart(rank=rank, lane=lane, what=what, seconds=seconds / self.num_steps)
            for (rank, lane, what), seconds in parts.items()
        ]
        return tuple(sorted(found, key=lambda part: -part.seconds))

    # -- the list ----------------------------------------------------------------------------------------------------

    def _timed(self, edit: Edit) -> Timed:
        listed: dict[tuple[int, Ref], tuple[_Act, float]] = {}
        events: dict[int, tuple[Event, ...]] = {}
        gone = self._gone(edit)
        for rank in self._samples:
            acts = self._acts(rank)
            _take_out(acts, edit.cuts.get(rank, ()))
            left = [act for act in acts if act.call is None or (act.call.group, act.call.number) not in gone]
            events[rank] = self._events(rank, self._moved(rank, left, edit), edit, listed)
        trace = Trace(world_size=max(events, default=0) + 1, events=events, observer=Observer.LIVE)
        if not self._act_of:
            self._act_of = {key: act for key, (act, _) in listed.items()}
        return Clockwork(trace).run(lambda event: listed[event.rank, event.ref][1])

    def _gone(self, edit: Edit) -> set[tuple[Group, int]]:
        """The meetings that are not made: the steps of a group's first rank say which call of a line is the last."""
        gone: set[tuple[Group, int]] = set()
        last: dict[tuple[Line, Group, int], int] = {}
        for rank, calls in self._calls.items():
            for call in sorted(calls, key=lambda call: call.number):
                line, group = (call.file, call.line), call.group
                if rank != min(group.ranks):
                    continue
                if line in edit.dropped:
                    gone.add((group, call.number))
                if line in edit.joined:
                    step = line, group, bisect.bisect_right(self._bounds[rank], call.issued_s)
                    if step in last:
                        gone.add((group, last[step]))
                    last[step] = call.number
        return gone

    def _moved(self, rank: int, acts: Sequence[_Act], edit: Edit) -> list[_Act]:
        """The acts with the calls of some lines issued earlier and waited for later, within the host's own time."""
        moved = edit.moved
        turns = turns_of(self._calls[rank], self._bounds[rank]) if moved else {}

        def slack(call: Call) -> Slack:
            slacks, turn = moved.get((call.file, call.line), ()), turns.get((call.group, call.number), 0)
            return slacks[turn] if turn < len(slacks) else (0.0, 0.0)

        def early(call: Call) -> tuple[int, float]:
            number = call.number if edit.keeps_order else bisect.bisect_right(self._bounds[rank], call.issued_s)
            return number, slack(call)[0]

        found = _forward(
            acts, lambda call: slack(call)[0], lambda other, issue: _lets_pass(other, issue, early), is_wait=False
        )
        return _forward(found[::-1], lambda call: slack(call)[1], lambda other, wait: True, is_wait=True)[::-1]

    def _acts(self, rank: int) -> list[_Act]:
        """The host of a rank from the first bound of any rank to its own last one."""
        points: list[tuple[float, float, _Act]] = []
        for call in self._calls[rank]:
            points.append((call.issued_s, call.issued_s, _Act(call.issued_s, call=call)))
            if call.free_s > call.blocked_s:
                rest = call.free_s - max(call.blocked_s, call.ended_s)
                wait = _Act(call.blocked_s, max(rest, 0.0), call, is_wait=True)
                points.append((call.blocked_s, call.free_s, wait))
        points.sort(key=lambda point: point[:2])
        acts: list[_Act] = []
        now_s = self._begin_s
        for began_s, free_s, act in points:
            acts += [_Act(now_s, max(began_s - now_s, 0.0)), act]
            now_s = max(now_s, free_s)
        return [*acts, _Act(now_s, max(self._bounds[rank][-1] - now_s, 0.0))]

    def _events(
        self, rank: int, acts: Sequence[_Act], edit: Edit, listed: dict[tuple[int, Ref], tuple[_Act, float]]
    ) -> tuple[Event, ...]:
        events: list[Event] = []
        heads: dict[Lane, int] = defaultdict(int)
        issued: dict[tuple[Group, int], Ref] = {}
        lanes: dict[object, Lane] = {}

        def put(lane: Lane, body: Body, seconds: float, *after: Ref) -> Ref:
            event = Event(rank=rank, lane=lane, position=heads[lane], body=body, after=after)
            heads[lane] += 1
            events.append(event)
            listed[rank, event.ref] = act, seconds
            return event.ref

        for act in acts:
            call = act.call
            if call is None:
                put(HOST, Compute(name="own"), act.seconds)
                continue
            line, key = (call.file, call.line), (call.group, call.number)
            if act.is_wait:
                if key in issued:
                    put(HOST, Wait(on=issued[key]), act.seconds)
                continue
            took_s = self._took_s[rank, *key]
            own = call.group, line if line in edit.own_lane else None
            lane = lanes.setdefault(own, Lane(kind=LaneKind.COMM, index=len(lanes)))
            ref = put(HOST, Compute(name="issue"), 0.0)
            index = self._index[key]
            if key not in self._buffered:
                issued[key] = put(lane, Barrier(group=Group(ranks=call.group.ranks, index=index)), took_s, ref)
            elif rank == call.group.ranks[0]:
                issued[key] = put(lane, Compute(name="send"), took_s, ref)
                put(lane, StoreSet(key=str(index)), 0.0)
            else:
                issued[key] = put(lane, StoreWait(key=str(index)), took_s, ref)
        return tuple(events)


def _buffered(calls: Sequence[Call]) -> Call | None:
    """The send that ended before its receiver came; None where the calls are no transfer, or it did not."""
    if not calls[0].is_transfer:
        return None
    send = next(call for call in calls if call.rank == call.group.ranks[0])
    return send if all(send.ended_s <= call.issued_s for call in calls if call is not send) else None


def _lines_seen(rank: RankSamples) -> tuple[list[float], list[tuple[str, float]]]:
    """When each line of the loop was seen, in order, and the line with its seconds."""
    seen: list[tuple[float, str, float]] = []
    for sampled in rank.stacks:
        site = loop_line(sampled, rank)
        if site is not None:
            seen += [
                (sampled.at_s[step], site, wall) for step, (wall, _) in sampled.steps.items() if step in sampled.at_s
            ]
    seen.sort()
    return [at_s for at_s, _, _ in seen], [(site, wall) for _, site, wall in seen]


def _take_out(acts: Sequence[_Act], cuts: Iterable[Cut]) -> None:
    """Shortens the host's own time by the cuts, each where it is nearest to its moment."""
    own = [act for act in acts if act.call is None]
    begins, ends = [act.began_s for act in own], [act.began_s + act.seconds for act in own]
    for cut in cuts:
        left_s = cut.seconds
        below = bisect.bisect_right(begins, cut.at_s) - 1
        above = below + 1
        while left_s > 0 and (below >= 0 or above < len(own)):
            is_below = above >= len(own) or (below >= 0 and cut.at_s - ends[below] <= begins[above] - cut.at_s)
            act = own[below if is_below else above]
            below, above = (below - 1, above) if is_below else (below, above + 1)
            taken_s = min(left_s, act.seconds)
            act.seconds -= taken_s
            left_s -= taken_s


def _asks_at(stack: Sequence[Instruction], line: Line) -> bool:
    """Whether a look found torch.distributed's own code at work, called at a line of the program."""
    inner = next((place for place in stack if place.owner != OURS), None)
    if inner is None or "/torch/distributed/" not in inner.file:
        return False
    return next(((place.file, place.line) for place in stack if place.owner == USER), None) == line


def _forward(
    acts: Sequence[_Act], seconds_of: Callable[[Call], float], lets_pass: Callable[[_Act, _Act], bool], *, is_wait: bool
) -> list[_Act]:
    """The acts with issues, or waits, moved towards the front over so much of the host's own time before them.

    A wait passes whatever stands there but its own issue, an issue the waits for other calls and the calls of its line
    that can be issued less early in the same step: the others of a group keep their order, on all ranks alike.
    """
    found: list[_Act] = []
    for act in acts:
        passed: list[_Act] = []
        left_s = seconds_of(act.call) if act.call is not None and act.is_wait is is_wait else 0.0
        while left_s > 0 and found and lets_pass(found[-1], act):
            other = found.pop()
            taken_s = min(left_s, other.seconds) if other.call is None else 0.0
            passed.append(other if other.call is not None else _Act(other.began_s, taken_s))
            left_s -= taken_s
            if other.call is None and other.seconds > taken_s:
                found.append(_Act(other.began_s, other.seconds - taken_s))
        found += [act, *reversed(passed)]
    return found


def _lets_pass(other: _Act, issue: _Act, early: Callable[[Call], tuple[int, float]]) -> bool:
    """Whether an issue may stand before another act: of its line, where that is plain.

    `early`: within what it may pass others, and by how many seconds it could be earlier.
    """
    if other.call is None or other.is_wait or issue.call is None:
        return True
    if (other.call.file, other.call.line) != (issue.call.file, issue.call.line):
        return False
    (step, other_s), (own_step, own_s) = early(other.call), early(issue.call)
    return step == own_step and other_s < own_s / 2
