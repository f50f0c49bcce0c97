"""A certificate says what a segment of any count calls, or that it does not know; a guard tells the first departure."""

import json

import pytest

from emberward.events import (
    Collective,
    CollectiveOp,
    Compute,
    Group,
    GroupCreate,
    HostSync,
    Phase,
    Recv,
    ReduceOp,
    Send,
    Site,
    Stage,
    SyncKind,
)
from emberward.findings import Cause
from emberward.sources import Certificate, DepartureError, Guard, ProgramWriter, RoleProgram

WORLD = Group(ranks=(0, 1, 2, 3), label="world")
PIPE = Group(ranks=(1, 3), label="pp_down")
EVAL, SAVE = Phase(step=1, stage=Stage.EVAL, name="held out (1/1)"), Phase(step=1, stage=Stage.SAVE)


def here():
    return Site(file="model.py", line=3)


def reduce(numel=4, **facts):
    usual = {"op": CollectiveOp.ALL_REDUCE, "dtype": "float32", "reduce_op": ReduceOp.SUM}
    return Collective(**{**usual, "group": WORLD, "numel": numel, "shape": (numel,), **facts})


def send(tag=0, numel=8):
    return Send(peer=3, group=PIPE, tag=tag, dtype="float32", numel=numel, shape=(2, 4))


def recv(tag=1):
    return Recv(peer=3, group=PIPE, tag=tag, dtype="float32", numel=8, shape=(2, 4))


def step(num_mb):
    """A pipeline's first stage: one forward ahead, then one forward and one backward, then the end of the step."""
    return [send(), *[send(), recv()] * (num_mb - 1), recv(), reduce(7), reduce(6)]


GROUP = GroupCreate(group=PIPE)
EVALUATION = [reduce(2)]
VOTES = [reduce(1)] * 3
MADE = {
    ("setup", None): [[GROUP]],
    ("step", 2): [step(2)],
    ("step", 4): [step(4)],
    ("gap", None): [[]],
    ("eval", 2): [[send(), send(), *EVALUATION]],
    ("eval", 3): [[send(), send(), send(), *EVALUATION]],
    ("save", None): [VOTES],
    ("exit", 2): [[send(), reduce(9)] * 2],
    ("exit", None): [[]],
}


def program(made=MADE):
    writer = ProgramWriter(1)
    for (kind, count), forms in made.items():
        for form in forms:
            calls = [(body, Site(file="train.py", line=10 + n), Phase(micro_batch=n)) for n, body in enumerate(form)]
            writer.segment(kind, count, calls)
    return writer.program()


def bodies(form, role):
    return [role.calls[number] for number in form.calls]


def guard(made=MADE, **named):
    told = []
    watch = Guard(program(made), rank=1, find_site=here, on_departure=told.append, **named)
    for body in made[("setup", None)][0]:
        watch.before(body)
    return watch, told


def run(watch, *parts):
    """Plays (phase, count, calls) one after the other."""
    for phase, count, calls in parts:
        watch.begin(phase, count)
        for body in calls:
            watch.before(body)


def steps(*counts):
    return [(Phase(step=number), count, step(count)) for number, count in enumerate(counts)]


def test_a_certificate_is_read_as_it_was_written():
    whole = Certificate(recipe="abc", emberward="0.1", torch="2.13", role_of=(0, 0), roles=(program(),))
    again = Certificate.from_json(json.loads(json.dumps(whole.to_json())))
    assert again == whole
    assert again.role(1) == program()
    with pytest.raises(ValueError, match="certificate of version 2, this program reads 1"):
        Certificate.from_json({**whole.to_json(), "certificate": 2})


@pytest.mark.parametrize("num_mb", [2, 3, 4, 5, 9])
def test_a_count_between_and_beyond_the_rehearsed_ones_follows_from_them(num_mb):
    role = program()
    wanted = program({("step", num_mb): [step(num_mb)]})
    (form,) = role.forms("step", num_mb)
    assert bodies(form, role) == bodies(wanted.segments[0], wanted)
    assert len(form.places) == len(form.calls)


def test_a_sample_of_more_tokens_is_the_same_part_more_often():
    role = program()
    (form,) = role.forms("exit", 5)
    assert bodies(form, role) == bodies(role.forms("exit", 2)[0], role)[:2] * 5


@pytest.mark.parametrize(
    ("kind", "count", "why"),
    [
        ("step", 1, "below the least that was rehearsed the pipeline may not fill"),
        ("load", None, "nobody rehearsed it"),
        ("save", 3, "a save with a count is not the save that was rehearsed, and three votes are no part three times"),
    ],
)
def test_what_does_not_follow_is_not_certified(kind, count, why):
    assert program().forms(kind, count) is None, why


def test_a_pattern_of_two_micro_batches_certifies_each_second_count_alone():
    """As interleaved schedules repeat: forwards of a round of micro-batches, then their backwards."""

    def rounds(num_mb):
        return [*[send(), send(), recv(), recv()] * (num_mb // 2), reduce()]

    role = program({("step", 2): [rounds(2)], ("step", 6): [rounds(6)]})
    (form,) = role.forms("step", 4)
    assert bodies(form, role) == bodies(program({("step", 4): [rounds(4)]}).segments[0], role)
    assert role.forms("step", 3) is None


def test_two_counts_that_share_no_pattern_certify_no_third():
    role = program(
        {("step", 2): [[send(), reduce(), reduce()]], ("step", 4): [[recv(), recv(), send(), send(), send()]]}
    )
    assert role.forms("step", 3) is None


def test_a_run_that_does_what_was_proved_raises_no_alarm():
    done = []
    watch, told = guard(on_first_step=done.append)
    run(
        watch,
        (Phase(stage=Stage.LOAD), None, [reduce(40)]),
        *steps(2, 2, 3, 3, 4, 4),
        (Phase(step=6), None, []),
        (EVAL, 2, [send(), send(), *EVALUATION]),
        (EVAL, 7, [*[send()] * 7, *EVALUATION]),
        (EVAL, 0, []),
        (SAVE, None, VOTES),
        *steps(4),
        (Phase(step=7, stage=Stage.EXIT), 3, [send(), reduce(9)] * 3),
        (Phase(step=7, stage=Stage.EXIT), None, []),
    )
    assert told == []
    assert done == [2 + len(step(2))]
    assert list(watch.not_certified) == [("load", None)]


def test_a_second_form_of_a_segment_is_as_good_as_the_first():
    """A first step may gather what later ones have; which form it is shows at the first call that differs."""
    first, later = [send(), reduce(3), reduce(6)], [send(), reduce(6)]
    watch, told = guard({**MADE, ("step", 2): [first, later], ("step", 3): [later, [*later, send()]]})
    run(watch, *[(Phase(step=n), 2, form) for n, form in enumerate([first, later, later])])
    run(watch, (Phase(step=3), 3, [*later, send()]), (Phase(step=4), 3, later), (Phase(step=5), None, []))
    assert told == []


def test_what_waits_or_computes_is_no_call():
    watch, told = guard()
    watch.begin(Phase(step=0), 2)
    for body in step(2):
        watch.before(HostSync(kind=SyncKind.ITEM))
        watch.before(body)
        watch.before(Compute(name="0F0"))
    watch.begin(Phase(step=1))
    assert told == []


DEPARTURES = {
    "extra": ([send(), reduce(3)], Cause.EXTRA_COLLECTIVE),
    "skipped": ([send(), send(), recv(), recv(), reduce(6)], Cause.SKIPPED_COLLECTIVE),
    "swapped": ([send(), recv(), send()], Cause.SKIPPED_COLLECTIVE),
    "another type": ([send(), send(), recv(), recv(), reduce(7, dtype="int32")], Cause.DTYPE),
    "another size": ([send(), send(), recv(), recv(), reduce(5)], Cause.SHAPE),
    "another operation": (
        [send(), send(), recv(), recv(), reduce(7, op=CollectiveOp.BROADCAST, root=0, reduce_op=None)],
        Cause.DIFFERENT_OP,
    ),
    "another reduction": ([send(), send(), recv(), recv(), reduce(7, reduce_op=ReduceOp.MAX)], Cause.DIFFERENT_OP),
    "another tag": ([send(tag=2)], Cause.DIFFERENT_OP),
    "ended early": (step(2)[:-1], Cause.SKIPPED_COLLECTIVE),
    "one more at the end": ([*step(2), reduce(6)], Cause.EXTRA_COLLECTIVE),
}


@pytest.mark.parametrize(("calls", "cause"), DEPARTURES.values(), ids=DEPARTURES.keys())
def test_the_first_departure_is_told_once_and_the_next_ones_are_not(calls, cause):
    watch, told = guard()
    run(watch, *steps(2, 2))
    run(watch, (Phase(step=2), 2, calls), *steps(2, 4))
    (departure,) = told
    assert departure.cause is cause
    assert (departure.rank, departure.step, departure.kind) == (1, 2, "step")
    assert not watch.is_checking


def test_a_departure_is_told_before_the_call_is_counted():
    """What is in the ring is then the last call that was right."""
    published = []

    class StopRankError(Exception):
        pass

    def stop(departure):
        raise StopRankError

    watch = Guard(program(), rank=1, find_site=here, on_departure=stop, publish=lambda *place: published.append(place))
    watch.before(GROUP)
    watch.begin(Phase(step=0), 2)
    watch.before(send())
    with pytest.raises(StopRankError):
        watch.before(reduce(3))
    assert [position for position, _ in published] == [1, 2]
    assert published[-1] == (watch.position, watch.hash)


def test_ranks_of_one_role_have_one_hash_and_another_order_has_another():
    """A call names its group by label and its peer by place, so that the hash does not depend on the rank."""
    other = Group(ranks=(0, 2), label="pp_down")
    theirs = [Send(peer=2, group=other, tag=0, dtype="float32", numel=8, shape=(2, 4)), reduce()]
    ours = [send(), reduce()]
    hashes = []
    for calls in (ours, theirs, ours[::-1]):
        watch = Guard(program(), rank=1, find_site=here, on_departure=lambda departure: None)
        for body in calls:
            watch.before(body)
        hashes.append(watch.hash)
    assert hashes[0] == hashes[1] != hashes[2]
    assert hashes[0] < 1 << 64


def message(calls, *, count=2):
    watch, told = guard()
    run(watch, *steps(2), (Phase(step=1), count, calls), (Phase(step=2), None, []))
    return DepartureError(told[0], next="emberward check bloom_tiny")


def test_messages_word_for_word():
    assert message([send(), reduce(3)]).text() == (
        "R110 rank 1 departs from the proved order at call 8 (step 1, micro-batch 1)\n"
        "  where     model.py:3\n"
        "  expected  send pp_down float32 2x4 to place 1 at train.py:11\n"
        "  found     all_reduce world float32 3 sum\n"
        "  next      emberward check bloom_tiny"
    )
    assert message(step(3)[:-2], count=3).text() == (
        "R110 rank 1 departs from the proved order at call 13 (step 1)\n"
        "  where     train.py:14\n"
        "  expected  all_reduce world float32 7 sum at train.py:14\n"
        "  found     the end of this step\n"
        "  next      emberward check bloom_tiny"
    )
    finding = message([send(), recv()]).to_finding()
    assert finding.code == "R110"
    assert (finding.phase.step, finding.phase.micro_batch) == (1, 1)
    assert finding.culprit_ranks == (1,)
    assert finding.evidence[-1] == "the proved order has this call 1 later: the call before it did not come"


def test_a_program_without_calls_is_held_to_none():
    nothing = RoleProgram(rank=0, calls=(), places=(), segments=())
    watch = Guard(nothing, rank=0, find_site=here, on_departure=lambda departure: None)
    watch.begin(Phase(step=0))
    watch.before(reduce())
    assert not watch.is_checking
