"""The judge's decisions, one rule a test."""

import sys
from collections import Counter

import pytest
from unit.match.scenes import ALL4, DP, HOST, TP, broadcast, gather, head_on, reduce, trace, two_communicators

from emberward.events import (
    Acquire,
    Barrier,
    Collective,
    CollectiveOp,
    Compute,
    Group,
    GroupCreate,
    HostSync,
    Lane,
    LaneKind,
    Observer,
    Phase,
    Recv,
    ReduceOp,
    Ref,
    Release,
    Send,
    Site,
    Stage,
    StoreSet,
    StoreWait,
    SyncKind,
    TraceBuilder,
    Wait,
)
from emberward.findings import Cause, Certainty, Kind, Severity
from emberward.match import (
    UNBOUNDED,
    BatchCompletion,
    EditKind,
    OddSide,
    Outcome,
    buffered,
    check,
    explain,
)


def only(verdict, code):
    assert [finding.code for finding in verdict.findings] == [code], explain(verdict)
    return verdict.findings[0]


def send(peer, **kw):
    return Send(peer=peer, dtype="int8", numel=4, **kw)


def recv(peer, **kw):
    return Recv(peer=peer, dtype="int8", numel=4, **kw)


# deadlock


def test_a_cycle_of_two_among_512_ranks_comes_back_as_two_ranks_and_two_lines():
    verdict = check(head_on(world_size=512, a=137, b=402))
    finding = only(verdict, "M104")
    assert [(line.rank, line.site, line.waits_for) for line in verdict.witness] == [
        (137, "recipes/tiny.py:41", (402,)),
        (402, "recipes/tiny.py:41", (137,)),
    ]
    assert [member.rank for member in finding.cycle] == [137, 402]
    assert finding.culprit_ranks == () and finding.waiting_ranks == (137, 402)
    assert finding.certainty is Certainty.PROVED and finding.cause is Cause.CYCLE_P2P
    assert "510 other ranks wait behind this cycle" in finding.evidence
    assert verdict.cure is not None and verdict.cure.kind is EditKind.SWAP


def test_the_cure_is_only_named_when_it_passes():
    # two cycles one after the other: no single swap opens both
    first = [send(1, tag=0), recv(1, tag=0)]
    second = [send(0, tag=0), recv(0, tag=0)]
    assert check(trace({0: first, 1: second})).cure is not None
    assert check(trace({0: first * 2, 1: second * 2})).cure is None


def test_sends_are_safe_only_with_enough_buffer():
    head = trace({0: [send(1), send(1), recv(1)], 1: [send(0), recv(0), recv(0)]})
    verdict = check(head)
    assert (verdict.outcome, verdict.finishes, verdict.least_buffer_bytes) == (Outcome.NEEDS_BUFFER, False, 4)
    assert only(verdict, "M104").severity is Severity.ERROR
    enough = check(head, sends=buffered(4))
    assert enough.finishes and enough.is_safe and enough.outcome is Outcome.NEEDS_BUFFER
    assert only(enough, "M104").severity is Severity.WARNING
    assert not check(head, sends=buffered(3)).finishes
    assert check(head, sends=UNBOUNDED).finishes


def test_no_buffer_helps_receives_that_come_first():
    verdict = check(trace({0: [recv(1), send(1)], 1: [recv(0), send(0)]}), sends=UNBOUNDED)
    assert verdict.outcome is Outcome.STUCK and verdict.least_buffer_bytes is None


def test_a_batch_issues_together():
    alone = trace({0: [send(1), recv(1)], 1: [send(0), recv(0)]})
    batch = trace({0: [send(1, batch=0), recv(1, batch=0)], 1: [send(0, batch=5), recv(0, batch=5)]})
    assert not check(alone).finishes
    assert check(batch).is_safe


def test_a_wait_on_a_batched_call_ends_with_its_batch_or_its_partner():
    builder = TraceBuilder(2, Observer.DRY_RUN)
    first = builder.add(0, TP, send(1, batch=0, tag=0))
    builder.add(0, TP, recv(1, batch=0, tag=1))
    builder.add(0, HOST, Wait(on=first.ref))
    builder.add(0, HOST, StoreSet(key="go"))
    builder.add(1, HOST, recv(0, tag=0))
    builder.add(1, HOST, StoreWait(key="go"))
    builder.add(1, HOST, send(0, tag=1))
    built = builder.build()
    assert not check(built, batches=BatchCompletion.TOGETHER).finishes
    assert check(built, batches=BatchCompletion.EACH).is_safe


def test_a_credit_bounds_and_its_cure_is_one_more():
    take, give = Acquire(credit="buffer"), Release(credit="buffer")
    assert check(trace({0: [take, give, take]}, credits={"buffer": 1})).is_safe
    builder = TraceBuilder(1, Observer.PLAN)
    builder.set_credit("buffer", 1)
    for mb in range(3):
        builder.add(0, TP, take, phase=Phase(micro_batch=mb, stage=Stage.FORWARD))
        done = builder.add(0, TP, Compute(name="forward"))
        if mb:
            builder.add(0, DP, give, after=[done.ref], phase=Phase(micro_batch=mb - 1, stage=Stage.BACKWARD))
    verdict = check(builder.build())
    finding = only(verdict, "M104")
    assert finding.cause is Cause.CYCLE_CREDIT
    assert verdict.cure is not None and verdict.cure.kind is EditKind.RAISE_CREDIT
    assert any("forward 2 waits for backward 1" in line for line in finding.evidence)


def test_a_credit_that_nobody_gives_back():
    take = Acquire(credit="buffer")
    finding = only(check(trace({0: [take, take]}, credits={"buffer": 1})), "M104")
    assert finding.cause is Cause.CYCLE_CREDIT and "never given back" in finding.message


def test_a_store_key_that_nobody_sets():
    finding = only(check(trace({0: [StoreWait(key="id")], 1: []})), "M103")
    assert finding.cause is Cause.STORE_WAIT and "which no rank sets" in finding.message


def test_a_host_sync_joins_lanes_issued_before_it_only():
    builder = TraceBuilder(2, Observer.DRY_RUN)
    group = Group(ranks=(0, 1))
    for rank in (0, 1):
        if rank == 0:
            builder.add(rank, TP, reduce(group))
            builder.add(rank, HOST, HostSync(kind=SyncKind.ITEM))
            builder.add(rank, HOST, send(1))
        else:
            builder.add(rank, HOST, recv(0))
            builder.add(rank, TP, reduce(group), after=[builder.add(rank, HOST, Compute(name="x")).ref])
    verdict = check(builder.build())
    assert verdict.outcome is Outcome.STUCK
    builder = TraceBuilder(2, Observer.DRY_RUN)
    builder.add(0, HOST, HostSync(kind=SyncKind.ITEM))
    builder.add(0, TP, reduce(group))
    builder.add(0, HOST, send(1))
    builder.add(1, HOST, recv(0))
    builder.add(1, HOST, reduce(group))
    assert check(builder.build()).is_safe


def test_a_lane_that_waits_for_its_own_later_event():
    builder = TraceBuilder(1, Observer.DRY_RUN)
    builder.add(0, HOST, Wait(on=builder.add(0, TP, Compute(name="k")).ref))
    assert check(builder.build()).is_safe
    builder = TraceBuilder(1, Observer.DRY_RUN)
    later = Lane(kind=LaneKind.HOST, index=0)
    builder.add(0, later, Wait(on=Ref(lane=later, position=1)))
    builder.add(0, later, Compute(name="k"))
    assert only(check(builder.build()), "M104").message == "rank 0 waits for itself"


# calls that do not fit


@pytest.mark.parametrize(
    ("odd", "code", "cause"),
    [
        (gather(), "M101", Cause.DIFFERENT_OP),
        (Barrier(group=ALL4), "M101", Cause.DIFFERENT_OP),
        (reduce(reduce_op=ReduceOp.MAX), "M101", Cause.DIFFERENT_OP),
        (reduce(numel=13), "M102", Cause.SHAPE),
        (reduce(dtype="bfloat16"), "M102", Cause.DTYPE),
    ],
)
def test_the_rank_that_differs_from_the_majority_is_named(odd, code, cause):
    finding = only(check(trace({rank: [reduce(), odd if rank == 3 else reduce()] for rank in range(4)})), code)
    assert (finding.cause, finding.culprit_ranks, finding.site) == (cause, (3,), "train.py:2")
    assert finding.waiting_ranks == (0, 1, 2)


def test_a_different_root():
    finding = only(check(trace({rank: [broadcast(1 if rank == 2 else 0)] for rank in range(4)})), "M102")
    assert (finding.cause, finding.culprit_ranks) == (Cause.DIFFERENT_ROOT, (2,))


def test_a_tie_accuses_nobody_and_names_all():
    verdict = check(trace({rank: [reduce() if rank < 2 else gather()] for rank in range(4)}))
    finding = only(verdict, "M101")
    assert finding.culprit_ranks == () and finding.waiting_ranks == (0, 1, 2, 3)
    assert finding.site == "train.py:1", "both sides make it at this line"
    assert "ranks 0 and 1" in finding.message and "ranks 2 and 3" in finding.message
    assert verdict.cure is None


def test_facts_that_an_observer_does_not_tell_are_no_difference():
    silent = Collective(op=CollectiveOp.ALL_REDUCE, group=ALL4)
    assert check(trace({rank: [silent if rank == 1 else reduce()] for rank in range(4)})).is_safe


def test_uneven_all_to_all_and_scatter_are_no_mismatch():
    for op in (CollectiveOp.ALL_TO_ALL, CollectiveOp.SCATTER):
        root = 0 if op is CollectiveOp.SCATTER else None
        calls = {r: [Collective(op=op, group=ALL4, dtype="float32", numel=r, root=root)] for r in range(4)}
        assert check(trace(calls)).is_safe


@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_skipped_call_among_like_calls_is_found_by_its_line(place):
    calls = [reduce()] * 6
    builder = TraceBuilder(4, Observer.DRY_RUN)
    for rank in range(4):
        for k, body in enumerate(calls):
            if not (rank == 1 and k == place):
                builder.add(rank, HOST, body, site=Site(file="train.py", line=100 + k))
    verdict = check(builder.build())
    finding = only(verdict, "M103")
    assert (finding.cause, finding.culprit_ranks) == (Cause.SKIPPED_COLLECTIVE, (1,))
    assert any(f"call {place + 1} of" in line for line in finding.evidence)
    assert verdict.cure is not None and verdict.cure.kind is EditKind.ADD_CALL


def test_an_extra_call_is_found_and_removing_it_cures():
    calls = {rank: [reduce(), gather(), reduce()] for rank in range(4)}
    calls[3] = [reduce(), reduce(numel=5), gather(), reduce()]
    verdict = check(trace(calls))
    finding = only(verdict, "M103")
    assert (finding.cause, finding.culprit_ranks, finding.site) == (Cause.EXTRA_COLLECTIVE, (3,), "train.py:2")
    assert verdict.cure is not None and verdict.cure.kind is EditKind.REMOVE_CALL


def test_one_skipped_step_in_several_groups_is_one_finding():
    pair = Group(ranks=(0, 1, 2, 3), index=1, label="ep")
    step = [reduce(), gather(pair)]
    calls = {rank: step * (2 if rank == 2 else 3) for rank in range(4)}
    phases = [Phase(step=k // 2, stage=Stage.BACKWARD) for k in range(6)]
    finding = only(check(trace(calls, phases=phases)), "M103")
    assert (finding.cause, finding.culprit_ranks) == (Cause.UNEVEN_DATA, (2,))
    assert any(line.startswith("also: ") for line in finding.evidence)


def test_a_group_that_one_rank_never_creates():
    new = GroupCreate(group=Group(ranks=(0, 1)))
    finding = only(check(trace({rank: [new] if rank != 2 else [] for rank in range(4)})), "M103")
    assert (finding.cause, finding.culprit_ranks) == (Cause.MISSING_GROUP, (2,))
    assert check(trace({rank: [new] for rank in range(4)})).is_safe


def test_creating_groups_in_two_orders_is_a_cycle():
    a, b = GroupCreate(group=Group(ranks=(0, 1))), GroupCreate(group=Group(ranks=(0, 2)))
    verdict = check(trace({0: [a, b], 1: [b, a], 2: [a, b]}))
    assert verdict.outcome is Outcome.STUCK and only(verdict, "M104").cause is Cause.CYCLE_COLLECTIVE


def test_a_missing_call_is_not_also_reported_as_a_cycle():
    tp, world = Group(ranks=(0, 1), label="tp"), Group(ranks=(0, 1, 2), label="world")
    step = [reduce(tp), reduce(world)]
    calls = {0: step * 3, 1: [reduce(world), *step * 2], 2: [reduce(world)] * 3}
    verdict = check(trace(calls))
    assert [finding.code for finding in verdict.findings] == ["M103"]


# sends and receives


def test_a_send_without_receive_says_which_tag_was_meant():
    finding = check(trace({0: [send(1, tag=3)], 1: [recv(0, tag=4)]})).findings[0]
    assert (finding.code, finding.cause, finding.kind) == ("M105", Cause.UNMATCHED_P2P, Kind.MISSING)
    assert "did you mean tag 4? there the other side has 1 call too many" in finding.evidence
    assert check(trace({0: [send(1, tag=3)], 1: [recv(0, tag=3)]})).is_safe


def test_ends_that_name_different_sizes():
    finding = only(check(trace({0: [send(1)], 1: [Recv(peer=0, dtype="int8", numel=5)]})), "M102")
    assert finding.cause is Cause.SHAPE and finding.culprit_ranks == ()


# who is observed


def test_an_unobserved_rank_is_unknown_and_never_guilty():
    calls = {rank: [reduce(), reduce()] for rank in (0, 1, 3)}
    verdict = check(trace(calls, world_size=4, observer=Observer.DUMP))
    assert verdict.is_safe and verdict.unknown_ranks == (2,) and not verdict.findings
    assert any("1 unobserved rank" in text for text in verdict.assumptions)
    assert check(trace({0: [send(1), StoreWait(key="k")]}, world_size=2)).is_safe


def test_a_live_trace_that_stops_anywhere_accuses_with_a_warning_only():
    verdict = check(trace({rank: [reduce()] * (1 if rank == 1 else 2) for rank in range(4)}, observer=Observer.LIVE))
    finding = only(verdict, "M103")
    assert (finding.severity, finding.certainty, finding.cause) == (
        Severity.WARNING,
        Certainty.OBSERVED,
        Cause.UNKNOWN,
    )
    assert finding.culprit_ranks == (1,)
    same = check(trace({rank: [reduce()] * (1 if rank == 1 else 2) for rank in range(4)}))
    assert only(same, "M103").severity is Severity.ERROR


# order on a device


def test_two_orders_on_two_lanes_are_a_hazard_and_on_one_lane_a_deadlock():
    hazard = check(two_communicators(is_fixed=False))
    assert hazard.is_safe and only(hazard, "M107").severity is Severity.WARNING
    assert only(check(two_communicators(is_fixed=False, has_wait=True)), "M104").severity is Severity.ERROR
    assert not check(two_communicators(is_fixed=True)).findings


def test_two_host_threads_that_nothing_orders():
    def built(is_ordered: bool):
        builder = TraceBuilder(2, Observer.DRY_RUN)
        second = Lane(kind=LaneKind.HOST, index=1)
        for rank in (0, 1):
            first = builder.add(rank, HOST, reduce(Group(ranks=(0, 1), index=0)))
            after = [first.ref] if is_ordered else []
            builder.add(rank, second, reduce(Group(ranks=(0, 1), index=1)), after=after)
        return builder.build()

    finding = only(check(built(False)), "M107")
    assert "two host threads of rank 0" in finding.message
    assert not check(built(True)).findings


# cost


def test_cost_grows_with_events_and_not_faster():
    def num_python_calls(num_calls: int) -> int:
        built = trace(
            {
                rank: [reduce(), send((rank + 1) % 4, batch=k), recv((rank - 1) % 4, batch=k)] * num_calls
                for k, rank in enumerate(range(4))
            }
        )
        counted = Counter[str]()
        sys.setprofile(lambda _frame, event, _argument: counted.update((event,)))
        try:
            found = check(built)
        finally:
            sys.setprofile(None)
        assert found.is_safe
        return counted["call"] + counted["c_call"]

    num_python_calls(10)
    assert num_python_calls(500) < 5.5 * num_python_calls(100)


def test_an_empty_trace_is_safe():
    assert check(trace({0: [], 1: []})).is_safe


def test_a_reference_that_leads_nowhere_is_a_warning_where_the_trace_may_be_cut():
    lost = {0: [Wait(on=Ref(lane=TP, position=7))]}
    assert only(check(trace(lost)), "M108").severity is Severity.ERROR
    cut = check(trace(lost, observer=Observer.LIVE))
    assert only(cut, "M108").severity is Severity.WARNING and cut.outcome is Outcome.SAFE


@pytest.mark.parametrize("longer", [0, 1])
@pytest.mark.parametrize("is_known", [True, False], ids=["the text tells", "the text does not tell"])
def test_of_two_ranks_one_of_which_has_ended_the_text_names_the_odd_one(longer: int, is_known: bool):
    pair = Group(ranks=(0, 1), label="dp")
    asked = []

    def tie_break(first: Site, second: Site | None) -> OddSide | None:
        asked.append((first, second))
        return OddSide(True, Cause.EXTRA_COLLECTIVE, "it stands under a condition") if is_known else None

    programs = {rank: [reduce(pair)] * (2 if rank == longer else 1) for rank in (0, 1)}
    finding = only(check(trace(programs), tie_break=tie_break), "M103")
    assert set(asked) == {(Site(file="train.py", line=2), None)}, "the side that goes on is the first"
    if is_known:
        assert (finding.culprit_ranks, finding.cause) == ((longer,), Cause.EXTRA_COLLECTIVE)
    else:
        assert finding.cause is not Cause.EXTRA_COLLECTIVE
