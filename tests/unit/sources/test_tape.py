"""Calls on a tape become events by the rules of the vocabulary."""

import dataclasses
import threading

import pytest

from emberward.events import (
    Collective,
    CollectiveOp,
    Group,
    HostSync,
    Lane,
    LaneKind,
    Observer,
    Recv,
    Send,
    Site,
    SyncKind,
    Trace,
    Wait,
)
from emberward.match import check
from emberward.sources import Tape, Transport, first_difference

WORLD = Group(ranks=(0, 1), label="world")
REDUCE = Collective(op=CollectiveOp.ALL_REDUCE, group=WORLD, dtype="float32", numel=4)


def send(**facts):
    return Send(peer=1, group=WORLD, **{"tag": 0, **facts})


def recv(**facts):
    return Recv(peer=1, group=WORLD, **{"tag": 0, **facts})


def tape(transport=Transport.GLOO):
    return Tape(0, find_site=lambda: Site(file="train.py", line=7), transport=transport)


def shown(events):
    return [(event.lane.kind.value, event.lane.index, event.position, type(event.body).__name__) for event in events]


def test_a_wait_that_follows_at_once_makes_a_blocking_call():
    one = tape()
    one.wait(one.call(REDUCE, is_blocking=False))
    one.call(REDUCE, is_blocking=True)
    assert shown(one.events()) == [("host", 0, 0, "Collective"), ("host", 0, 1, "Collective")]


def test_a_later_wait_joins_the_stream_of_the_group():
    one = tape()
    first = one.call(REDUCE, is_blocking=True)
    pending = one.call(REDUCE, is_blocking=False)
    one.call(send(), is_blocking=False)
    one.wait(pending)
    one.wait(pending)
    one.wait(first)
    host, stream, transfer, joined = one.events()
    assert shown([stream, transfer]) == [("comm", 0, 0, "Collective"), ("comm", 1, 0, "Send")]
    assert stream.after == transfer.after == (host.ref,)
    assert joined.body == Wait(on=stream.ref)


@pytest.mark.parametrize(("transport", "num_lanes"), [(Transport.GLOO, 2), (Transport.NCCL, 1)], ids=["gloo", "nccl"])
def test_both_directions_share_a_stream_on_nccl_alone(transport, num_lanes):
    one = tape(transport)
    works = [one.call(body, is_blocking=False) for body in (send(), recv())]
    for work in works:
        one.wait(work)
    lanes = {event.lane for event in one.events() if event.lane.kind is LaneKind.COMM}
    assert len(lanes) == num_lanes


def test_a_batch_is_never_folded_into_the_host():
    one = tape(Transport.NCCL)
    batch = one.next_batch()
    one.wait(one.call(send(batch=batch), is_blocking=False))
    assert shown(one.events()) == [("comm", 0, 0, "Send"), ("host", 0, 0, "Wait")]


def test_each_thread_is_a_lane():
    one = tape()
    one.call(REDUCE, is_blocking=True)
    thread = threading.Thread(target=lambda: one.call(REDUCE, is_blocking=True))
    thread.start()
    thread.join(timeout=10)
    assert [event.lane.index for event in one.events()] == [0, 1]


def hazards(one: Tape) -> list[str]:
    """The warnings about a program of two ranks that both do what is on the tape."""
    events = one.events()
    both = {0: events, 1: tuple(dataclasses.replace(event, rank=1) for event in events)}
    return [finding.code for finding in check(Trace(events=both, world_size=2, observer=Observer.DRY_RUN)).findings]


def on_lane(name: str, act) -> None:
    thread = threading.Thread(target=act, name=name)
    thread.start()
    thread.join(timeout=10)


def test_what_a_thread_does_after_another_is_a_wait_for_it():
    one = tape()
    one.call(REDUCE, is_blocking=True)
    point = one.point()

    def act() -> None:
        one.follow(point)
        one.follow(point)
        one.call(REDUCE, is_blocking=True)

    on_lane("lane log", act)
    one.follow(one._newest[1])
    one.follow(one.point())
    one.call(REDUCE, is_blocking=True)
    found = [(event.lane.label, type(event.body).__name__) for event in one.events()]
    assert found == [
        ("main", "Collective"),
        ("log", "Wait"),
        ("log", "Collective"),
        ("main", "Wait"),
        ("main", "Collective"),
    ]
    waits = [event.body.on for event in one.events() if isinstance(event.body, Wait)]
    assert [(ref.lane.label, ref.position) for ref in waits] == [("main", 0), ("log", 1)]
    assert hazards(one) == []


def test_threads_in_no_order_are_a_hazard():
    one = tape()
    one.call(REDUCE, is_blocking=True)
    on_lane("lane log", lambda: one.call(REDUCE, is_blocking=True))
    one.call(REDUCE, is_blocking=True)
    assert hazards(one) == ["M107"]


def test_the_first_difference_names_both_sides():
    one, other = tape(), tape()
    for each in (one, other):
        each.call(REDUCE, is_blocking=True)
    assert first_difference(one.events(), other.events()) is None
    other.wait(other.call(send(), is_blocking=False))
    difference = first_difference(one.events(), other.events())
    assert str(difference) == "rank 0, event 1: expected the end; found send to 1 tag 0 on main at train.py:7"


def test_a_read_of_a_value_is_a_wait_of_the_host_for_its_device():
    one = tape()
    read = one.noting_reads(lambda name, tensor: [7.0])
    assert read("step_totals", None) == [7.0]
    (event,) = one.events()
    assert event.body == HostSync(kind=SyncKind.ITEM, lane=Lane(kind=LaneKind.STREAM))
    assert (event.lane.kind, event.site) == (LaneKind.HOST, Site(file="train.py", line=7))
