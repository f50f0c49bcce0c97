"""Proofs for every number of micro-batches and steps, held against larger counts judged one by one."""

import random

import pytest
from unit.match.scenes import HOST, TP, reduce, trace

from emberward.events import Acquire, Group, Observer, Recv, Release, Send, TraceBuilder
from emberward.match import check, prove_periodic, prove_steps, repeated
from emberward.plan import Pipe, gpipe, interleaved, one_f_one_b, pipeline_trace
from emberward.testing import ThreadReplayer, oneflow_swin


def one_f(pp):
    return lambda n: pipeline_trace(one_f_one_b(pp, n), Pipe.over(range(pp)))


@pytest.mark.parametrize("pp", [2, 3, 4])
def test_1f1b_is_proved_for_every_number_of_micro_batches(pp):
    proof = prove_periodic(one_f(pp), first=1, up_to=24)
    assert proof.is_proved and proof.period == 1 and proof.failing is None
    assert any("goes on beyond" in text for text in proof.verdict.assumptions)
    for count in (25, 40):
        assert check(one_f(pp)(count)).is_safe


def test_interleaved_is_proved():
    proof = prove_periodic(lambda n: pipeline_trace(interleaved(3, 3 * n, 2), Pipe.over(range(3))), first=1, up_to=12)
    assert proof.is_proved


def test_seed_0_on_its_own_lane_is_proved_and_on_the_forward_lane_fails_at_three():
    own = prove_periodic(lambda n: oneflow_swin(is_buffer_on_forward=False, num_micro_batches=n), first=1)
    assert own.is_proved and own.failing is None
    shared = prove_periodic(lambda n: oneflow_swin(is_buffer_on_forward=True, num_micro_batches=n), first=1)
    assert not shared.is_proved and shared.failing == 3
    assert (
        not ThreadReplayer()
        .replay(oneflow_swin(is_buffer_on_forward=True, num_micro_batches=3), time_limit_s=10)
        .finished
    )


def test_a_family_with_two_growing_loops_is_judged_but_not_proved():
    proof = prove_periodic(lambda n: pipeline_trace(gpipe(2, n), Pipe.over(range(2))), first=1, up_to=8)
    assert not proof.is_proved and proof.failing is None and proof.reason.startswith("not proved beyond 8")


@pytest.mark.parametrize("fails_at", [5, 11])
def test_a_family_that_fails_late_is_never_proved(fails_at):
    """A credit of `fails_at - 1` units that only the end gives back."""

    def build(count):
        builder = TraceBuilder(1, Observer.DRY_RUN)
        builder.set_credit("buffer", fails_at - 1)
        for _ in range(count):
            builder.add(0, HOST, Acquire(credit="buffer"))
        for _ in range(count):
            builder.add(0, HOST, Release(credit="buffer"))
        return builder.build()

    proof = prove_periodic(build, first=1, up_to=20)
    assert not proof.is_proved and proof.failing == fails_at


def test_a_builder_that_changes_its_pattern_is_not_proved_from_the_counts_before():
    def build(count):
        group = Group(ranks=(0, 1))
        return trace({rank: [reduce(group, numel=count)] * count for rank in (0, 1)})

    assert not prove_periodic(build, first=1, up_to=10).is_proved


def test_steps_that_leave_the_state_they_found():
    step = oneflow_swin(is_buffer_on_forward=False)
    # the last forward's register is given back by the last backward, so one step loses none
    proof = prove_steps(step)
    assert proof.is_proved
    assert check(repeated(step, 3)).is_safe
    assert len(list(repeated(step, 3))) == 3 * len(list(step))


@pytest.mark.parametrize("capacity", [1, 2, 7])
def test_a_credit_that_leaks_stops_a_later_step(capacity):
    step = trace({0: [Acquire(credit="buffer")]}, credits={"buffer": capacity})
    proof = prove_steps(step)
    assert not proof.is_proved and proof.failing == capacity + 1
    assert "loses 1 of" in proof.reason
    assert check(repeated(step, capacity)).is_safe and not check(repeated(step, capacity + 1)).is_safe


def test_a_step_that_is_not_safe_alone():
    group = Group(ranks=(0, 1))
    proof = prove_steps(trace({0: [reduce(group)], 1: []}))
    assert not proof.is_proved and proof.failing == 1


def test_a_credit_that_leaks_from_a_surplus_is_not_proved():
    """More is given back at first than taken, so that the loss of each turn shows late."""

    def build(count):
        builder = TraceBuilder(1, Observer.DRY_RUN)
        builder.set_credit("buffer", 1)
        for _ in range(3):
            builder.add(0, HOST, Release(credit="buffer"))
        for _ in range(count):
            builder.add(0, HOST, Acquire(credit="buffer"))
        return builder.build()

    proof = prove_periodic(build, first=1, up_to=10)
    assert not proof.is_proved and proof.failing == 5


def random_family(seed: int):
    """Random programs: before, n times a body, after, on two lanes; some ranks are ahead by a part of the body."""
    rng = random.Random(seed)
    num_ranks = rng.choice([1, 2, 2, 3])

    def piece(num_ops: int) -> dict[int, list]:
        found: dict[int, list] = {rank: [] for rank in range(num_ranks)}
        for _ in range(num_ops):
            lane = rng.choice([HOST, HOST, TP])
            tag = 0 if lane is HOST else 1
            match rng.randrange(7):
                case 0:
                    found[rng.randrange(num_ranks)].append((lane, Acquire(credit="ab"[tag])))
                case 1:
                    found[rng.randrange(num_ranks)].append((rng.choice([HOST, TP]), Release(credit=rng.choice("ab"))))
                case 2 | 3 | 4 if num_ranks > 1:
                    a, b = rng.sample(range(num_ranks), 2)
                    found[a].append((lane, Send(peer=b, tag=tag, numel=1, dtype="int8")))
                    found[b].append((lane, Recv(peer=a, tag=tag, numel=1, dtype="int8")))
                case _:
                    group = Group(ranks=tuple(range(num_ranks)), index=tag)
                    for rank in range(num_ranks):
                        found[rank].append((lane, reduce(group)))
        return found

    before, body, after = piece(rng.randint(0, 4)), piece(rng.randint(1, 6)), piece(rng.randint(0, 4))
    for rank in range(num_ranks):
        cut = rng.randint(0, len(body[rank])) if rng.random() < 0.5 else 0
        head, rest = body[rank][:cut], body[rank][cut:]
        before[rank], body[rank], after[rank] = before[rank] + head, rest + head, rest + after[rank]
    capacities = {"a": rng.choice([1, 2, 5]), "b": rng.choice([1, 2, 5])}
    is_joined = rng.random() < 0.5

    def build(count: int):
        builder = TraceBuilder(num_ranks, Observer.DRY_RUN)
        for name, capacity in capacities.items():
            builder.set_credit(name, capacity)
        for rank in range(num_ranks):
            builder.observe(rank)
            issued = []
            for lane, call in before[rank] + body[rank] * count + after[rank]:
                event = builder.add(rank, lane, call, after=issued if lane is TP and is_joined else [])
                issued = [event.ref] if lane is HOST else issued
        return builder.build()

    return build


def test_what_is_proved_of_random_families_holds_for_larger_counts():
    num_proved = num_failing = 0
    for seed in range(250):
        build = random_family(seed)
        proof = prove_periodic(build, first=1, up_to=10)
        num_proved += proof.is_proved
        num_failing += proof.failing is not None
        for count in (*range(1, 16), 29) if proof.is_proved else ():
            assert check(build(count), with_cure=False, with_hazards=False).is_safe, (seed, count)
    assert num_proved > 50 and num_failing > 50, (num_proved, num_failing)
