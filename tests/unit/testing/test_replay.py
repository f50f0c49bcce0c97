"""The referee itself, and the judge against it."""

import threading
from collections.abc import Callable

import pytest

from emberward.events import (
    Acquire,
    Body,
    Collective,
    CollectiveOp,
    Group,
    Lane,
    LaneKind,
    Observer,
    Recv,
    Release,
    Send,
    StoreSet,
    StoreWait,
    Trace,
    TraceBuilder,
)
from emberward.match import RENDEZVOUS, BatchCompletion, buffered
from emberward.testing import ThreadReplayer, judge_and_replay, random_program, run_campaign

HOST = Lane(kind=LaneKind.HOST)
LIMIT_S = 10.0


def program(*ranks: list[Body], credits: dict[str, int] | None = None) -> Trace:
    builder = TraceBuilder(len(ranks), Observer.DRY_RUN)
    for rank, bodies in enumerate(ranks):
        builder.observe(rank)
        for body in bodies:
            builder.add(rank, HOST, body)
    for name, capacity in (credits or {}).items():
        builder.set_credit(name, capacity)
    return builder.build()


def send(peer: int, **kw) -> Send:
    return Send(peer=peer, dtype="int8", numel=4, **kw)


def recv(peer: int, **kw) -> Recv:
    return Recv(peer=peer, dtype="int8", numel=4, **kw)


def test_sends_that_meet_head_on_hang_by_rendezvous_and_end_with_four_bytes():
    trace = program([send(1), recv(1)], [send(0), recv(0)])
    hung = ThreadReplayer(sends=RENDEZVOUS).replay(trace, time_limit_s=LIMIT_S)
    assert not hung.finished
    assert [(rank, ref.position) for rank, ref in hung.frontier] == [(0, 0), (1, 0)]
    assert not hung.hit_time_limit
    assert not ThreadReplayer(sends=buffered(3)).replay(trace, time_limit_s=LIMIT_S).finished
    assert ThreadReplayer(sends=buffered(4)).replay(trace, time_limit_s=LIMIT_S).finished


def test_the_same_sends_in_one_batch_end():
    trace = program([send(1, batch=0), recv(1, batch=0)], [send(0, batch=0), recv(0, batch=0)])
    assert ThreadReplayer().replay(trace, time_limit_s=LIMIT_S).finished


def test_a_credit_lets_no_more_in_than_it_has():
    take, give = Acquire(credit="b"), Release(credit="b")
    assert ThreadReplayer().replay(program([take, give, take], credits={"b": 1}), time_limit_s=LIMIT_S).finished
    assert not ThreadReplayer().replay(program([take, take, give], credits={"b": 1}), time_limit_s=LIMIT_S).finished
    assert ThreadReplayer().replay(program([take, take, give], credits={"b": 2}), time_limit_s=LIMIT_S).finished


def test_a_store_key_and_its_absence():
    assert ThreadReplayer().replay(program([StoreSet(key="k")], [StoreWait(key="k")]), time_limit_s=LIMIT_S).finished
    assert not ThreadReplayer().replay(program([], [StoreWait(key="k")]), time_limit_s=LIMIT_S).finished


def test_calls_that_meet_and_differ_are_told():
    group = Group(ranks=(0, 1))
    gather = Collective(op=CollectiveOp.ALL_GATHER, group=group, dtype="float32", numel=2)
    reduce = Collective(op=CollectiveOp.ALL_REDUCE, group=group, dtype="float32", numel=2)
    replay = ThreadReplayer().replay(program([gather], [reduce]), time_limit_s=LIMIT_S)
    assert replay.finished
    assert len(replay.mismatches) == 1


@pytest.mark.parametrize("batches", list(BatchCompletion))
def test_no_thread_outlives_a_replay(batches: BatchCompletion):
    ThreadReplayer(batches=batches).replay(random_program(1), time_limit_s=LIMIT_S)
    # By name: other tests of this process have threads too, which start and end when they like.
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("replay rank")] == []


def test_a_seed_gives_the_same_program_again():
    assert [random_program(seed) for seed in range(20)] == [random_program(seed) for seed in range(20)]


def test_right_programs_end_and_about_half_of_all_do_not():
    campaign = run_campaign(range(300))
    assert not campaign.disagreements, campaign.disagreements[:3]
    assert campaign.num_programs - campaign.outcomes["safe"] >= 130
    assert min(campaign.outcomes[word] for word in ("safe", "needs_buffer", "stuck", "wrong")) >= 3
    assert all(judge_and_replay(seed, time_limit_s=LIMIT_S)[1] for seed in range(0, 60, 3))


def test_a_wrong_judge_would_be_caught(monkeypatch: pytest.MonkeyPatch):
    """The comparison itself can fail: a judge that calls everything safe disagrees on many seeds."""
    from emberward.testing import _campaign

    honest: Callable = _campaign.check

    def blind(trace: Trace, **kw):
        return honest(Trace(world_size=trace.world_size, events={}, observer=trace.observer), **kw)

    monkeypatch.setattr(_campaign, "check", blind)
    assert len(_campaign.run_campaign(range(60)).disagreements) > 10
