"""The clocks of several hosts in one timeline: jobs of simulated hosts whose true times are known."""

import random

import pytest

from emberward.events import Collective, CollectiveOp, Event, Group, Lane, LaneKind, Site
from emberward.lens import STEPS, RankCalls, RankTimeline, Span, timeline

HOST = Lane(kind=LaneKind.HOST)
SECOND = 1_000_000_000


def job(clocks, *, op=CollectiveOp.ALL_REDUCE, groups=None, seed=0, seconds=120):
    """Two ranks on each host, which meet every second. `clocks`: true time to that of the host.

    The ranks' timelines, and the true time at which each call began, by rank.
    """
    draw = random.Random(seed)
    size = 2 * len(clocks)
    groups = [Group(ranks=tuple(range(size)), index=0)] if groups is None else groups
    events, began = {rank: [] for rank in range(size)}, {rank: [] for rank in range(size)}
    for second in range(seconds):
        for group in groups:
            at = {rank: second * SECOND + draw.randrange(20_000_000) + group.index * 50_000_000 for rank in group.ranks}
            for rank, issued in at.items():
                clock = clocks[rank // 2]
                ended = max(at.values()) + 100_000 + int(draw.expovariate(1 / 300_000))
                events[rank].append(
                    Event(
                        rank=rank, lane=HOST, position=len(events[rank]), body=Collective(op=op, group=group),
                        site=Site(file="train.py", line=3), issued_ns=clock(issued), completed_ns=clock(ended),
                    )
                )  # fmt: skip
                began[rank].append(issued)
    ranks = []
    for rank, own in events.items():
        seen: dict[int, int] = {}
        sequences = {}
        for event in own:
            seen[event.body.group.index] = seen.get(event.body.group.index, 0) + 1
            sequences[event.ref] = seen[event.body.group.index]
        step = Span(name="step 0", track=STEPS, began_ns=own[0].issued_ns, ended_ns=own[-1].completed_ns, step=0)
        calls = RankCalls(rank=rank, events=tuple(own), sequences=sequences)
        ranks.append(RankTimeline(calls=calls, spans=(step,), tracks={STEPS: "steps"}, host=f"host{rank // 2}"))
    return ranks, began


def off_ms(ranks, began):
    """By how much the calls of a trace are off, at most, and the clock that the trace states."""
    trace = timeline(ranks)
    shown = {rank: [e["ts"] for e in trace["traceEvents"] if e["ph"] == "X" and "number" in e.get("args", {})
                    and e["pid"] == rank] for rank in began}  # fmt: skip
    first = shown[0][0] - began[0][0] / 1000
    off = max(abs(ts - first - at / 1000) for rank in began for ts, at in zip(shown[rank], began[rank], strict=True))
    return off / 1000, trace["otherData"]["clock"]


def stated_ms(clock):
    assert clock.startswith("host0's clock, the others' aligned by the collectives that they meet in, right to ")
    return float(clock.split()[-2])


def ahead(at):
    return at + 5 * SECOND


def drifting(at):
    return at - 7_000 * SECOND + at * 50 // 1_000_000


@pytest.mark.parametrize("seed", range(3))
def test_hosts_are_aligned_to_within_the_error_that_is_stated(seed):
    for clocks, most_ms in (([int, ahead], 1.0), ([int, drifting], 2.0), ([int, ahead, drifting], 2.0)):
        off, clock = off_ms(*job(clocks, seed=seed))
        assert off <= stated_ms(clock) + 0.001 <= most_ms


def test_hosts_that_meet_through_another_alone_are_aligned_too():
    groups = [Group(ranks=(0, 1, 2, 3), index=1), Group(ranks=(2, 3, 4, 5), index=2)]
    off, clock = off_ms(*job([int, ahead, lambda at: at - 3 * SECOND], groups=groups))
    assert off <= stated_ms(clock) + 0.001 <= 1.0


def test_one_host_stays_as_it_is_and_hosts_that_nothing_ties_are_said_to_be_apart():
    off, clock = off_ms(*job([int]))
    assert (round(off, 6), clock) == (0.0, "one host's monotonic clock; no offset between ranks")
    off, clock = off_ms(*job([int, ahead], op=CollectiveOp.BROADCAST))
    assert off > 4_000 and clock.startswith("each host's own clock: ranks of different hosts are not aligned")
