"""Calls on a tape become events by the rules of the vocabulary."""

import threading

import pytest

from emberward.events import Collective, CollectiveOp, Group, HostSync, Lane, LaneKind, Recv, Send, Site, SyncKind, Wait
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
