"""A trace with a clock: ends by lanes, meetings, waits and messages, and the path that decides the last of them."""

import pytest

from emberward.events import (
    Acquire,
    Barrier,
    Compute,
    Event,
    Group,
    Lane,
    LaneKind,
    Observer,
    Recv,
    Ref,
    Release,
    Send,
    StoreSet,
    StoreWait,
    Trace,
    Wait,
)
from emberward.match import Clockwork

HOST = Lane(kind=LaneKind.HOST)
COMM = Lane(kind=LaneKind.COMM)
WORLD = Group(ranks=(0, 1))


def timed(*ranks, credits=None):
    """Each rank: (lane, body, seconds, what it comes after)."""
    events, seconds = {}, {}
    for rank, rows in enumerate(ranks):
        heads, own = {}, []
        for lane, body, took_s, *after in rows:
            at = heads.get(lane, 0)
            heads[lane] = at + 1
            own.append(Event(rank=rank, lane=lane, position=at, body=body, after=tuple(after)))
            seconds[rank, own[-1].ref] = took_s
        events[rank] = tuple(own)
    trace = Trace(world_size=len(ranks), events=events, observer=Observer.LIVE, credits=credits or {})
    return Clockwork(trace).run(lambda event: seconds[event.rank, event.ref])


def work(seconds):
    return HOST, Compute(name="work"), seconds


def test_a_meeting_ends_after_the_last_rank_and_the_path_goes_over_to_it():
    meet = HOST, Barrier(group=WORLD), 1.0
    run = timed([work(2.0), meet, work(3.0)], [work(5.0), meet, work(1.0)])
    assert run.end_s == (2.0, 6.0, 9.0, 5.0, 6.0, 7.0)
    assert [(event.rank, event.position, seconds) for event, seconds in run.critical_path()] == [
        (0, 2, 3.0),
        (0, 1, 1.0),
        (1, 0, 5.0),
    ]


def test_a_call_beside_the_host_is_hidden_up_to_its_wait():
    issue = Ref(lane=HOST, position=0)
    rows = [work(1.0), (COMM, Barrier(group=Group(ranks=(0,))), 4.0, issue), work(3.0),
            (HOST, Wait(on=Ref(lane=COMM, position=0)), 0.0), work(1.0)]  # fmt: skip
    assert timed(rows).end_s == (1.0, 5.0, 4.0, 5.0, 6.0)


def test_messages_credits_and_the_store_hold_back_who_needs_them():
    send = HOST, Send(peer=1, group=WORLD), 0.5
    receive = HOST, Recv(peer=0, group=WORLD), 0.5
    assert timed([work(2.0), send], [receive, work(1.0)]).end_s == (2.0, 2.5, 2.5, 3.5)
    take, give = (HOST, Acquire(credit="b"), 0.0), (COMM, Release(credit="b"), 4.0)
    assert timed([take, give, take], credits={(None, "b"): 1}).end_s == (0.0, 4.0, 4.0)
    told = timed([work(3.0), (HOST, StoreSet(key="k"), 0.0)], [(HOST, StoreWait(key="k"), 0.25)])
    assert told.end_s == (3.0, 3.0, 3.25)
    assert told.total_s == 3.25


def test_a_trace_that_does_not_end_has_no_times():
    with pytest.raises(ValueError, match="does not end"):
        timed([(HOST, Barrier(group=WORLD), 1.0)], [(HOST, StoreWait(key="never"), 0.0)])
