"""Batch sums, the ramp-up and the learning rate, against the figures of BLOOM-176B's log."""

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberward.findings import ConfigError
from emberward.plan import BatchPlan, learning_rate, solve_batch


@dataclass(frozen=True)
class RampUp:
    start: int
    increment: int
    samples: int


# bigscience train/tr11-176B-ml/tr11-176B-ml.slurm: 384 GPUs, tp 4, pp 12, so dp 8.
BLOOM = solve_batch(global_batch=2048, micro_batch=2, dp=8, ramp_up=RampUp(start=192, increment=16, samples=9_765_625))


def message(**given_values) -> str:
    with pytest.raises(ConfigError) as caught:
        solve_batch(**given_values)
    return caught.value.text()


def sums(plan: BatchPlan) -> tuple[int, int, int, int]:
    return plan.global_batch, plan.micro_batch, plan.accumulation, plan.dp


@pytest.mark.parametrize(
    ("given_values", "expected"),
    [
        ({"global_batch": 32, "micro_batch": 4}, (32, 4, 8, 1)),
        ({"global_batch": 32, "accumulation": 4}, (32, 8, 4, 1)),
        ({"global_batch": 32, "dp": 2}, (32, 16, 1, 2)),
        ({"micro_batch": 4, "accumulation": 4}, (16, 4, 4, 1)),
        ({"micro_batch": 4, "dp": 2}, (8, 4, 1, 2)),
        ({"accumulation": 4, "dp": 2}, (8, 1, 4, 2)),
        ({"global_batch": 32, "micro_batch": 4, "dp": 2}, (32, 4, 4, 2)),
        ({"micro_batch": 4, "accumulation": 4, "dp": 2}, (32, 4, 4, 2)),
        ({"global_batch": 32, "micro_batch": 4, "accumulation": 4}, (32, 4, 4, 2)),
        ({"global_batch": 32, "micro_batch": 4, "accumulation": 4, "dp": 2}, (32, 4, 4, 2)),
    ],
)
def test_two_values_give_the_rest(given_values, expected):
    assert sums(solve_batch(**given_values)) == expected


POSITIVE = st.integers(min_value=1, max_value=64)


@given(POSITIVE, POSITIVE, POSITIVE)
def test_any_three_of_a_true_sum_give_it_back(micro_batch, accumulation, dp):
    whole = {
        "global_batch": micro_batch * accumulation * dp,
        "micro_batch": micro_batch,
        "accumulation": accumulation,
        "dp": dp,
    }
    for names in itertools.combinations(whole, 3):
        assert sums(solve_batch(**{name: whole[name] for name in names})) == tuple(whole.values())


@given(POSITIVE, POSITIVE, POSITIVE, st.integers(min_value=1, max_value=4096))
def test_what_the_error_calls_legal_is_legal(micro_batch, dp, accumulation, global_batch):
    given_values = {"global_batch": global_batch, "micro_batch": micro_batch, "dp": dp}
    if accumulation % 2:
        given_values["accumulation"] = accumulation
    try:
        solve_batch(**given_values)
    except ConfigError as error:
        advice = error.next or ""
        assert advice.startswith("batch.global_batch=")
        legal = int(advice.removeprefix("batch.global_batch="))
        assert solve_batch(**{**given_values, "global_batch": legal}).global_batch == legal
        _, _, options = (error.expected or "").partition("; ")
        for option in options.split(" or "):
            name, _, value = option.rpartition(" ")
            if name:
                last_name = name
            assert solve_batch(**{**given_values, last_name: int(value)})


def test_sums_that_do_not_divide_name_the_nearest_legal_values():
    assert message(global_batch=60, micro_batch=4, dp=2) == (
        "C105 the batch sums do not fit\n"
        "  expected  global_batch = micro_batch x accumulation x dp; global_batch 56 or 64 or micro_batch 3 or 5\n"
        "  found     global_batch 60, but micro_batch 4 x dp 2 = 8, and 60 / 8 = 7.5\n"
        "  next      batch.global_batch=64"
    )


def test_four_values_that_disagree_name_each_way_out():
    assert message(global_batch=32, micro_batch=4, accumulation=2, dp=2) == (
        "C105 the batch sums do not fit\n"
        "  expected  global_batch = micro_batch x accumulation x dp; "
        "global_batch 16 or micro_batch 8 or accumulation 4\n"
        "  found     global_batch 32, but micro_batch 4 x accumulation 2 x dp 2 = 16\n"
        "  next      batch.global_batch=16"
    )


def test_one_value_is_not_enough():
    assert message(dp=2) == (
        "C105 the batch is not determined\n"
        "  expected  two of global_batch, micro_batch, accumulation and dp; they give the rest\n"
        "  found     dp 2\n"
        "  next      batch.global_batch=32 batch.micro_batch=4"
    )
    assert message() == message(dp=2).replace("dp 2", "none of them")


def test_a_value_below_one_is_out_of_range():
    assert message(global_batch=0, dp=2) == (
        "C103 batch.global_batch is out of range\n  expected  at least 1\n  found     0"
    )


@pytest.mark.parametrize(
    ("ramp", "expected"),
    [
        (
            RampUp(start=190, increment=16, samples=1000),
            "C105 a batch of the ramp-up cannot be cut into micro-batches\n"
            "  expected  ramp_up.start a multiple of micro_batch x dp = 2 x 8 = 16, as 176 or 192\n"
            "  found     ramp_up.start 190\n"
            "  next      batch.ramp_up.start=192",
        ),
        (
            RampUp(start=192, increment=8, samples=1000),
            "C105 a batch of the ramp-up cannot be cut into micro-batches\n"
            "  expected  ramp_up.increment a multiple of micro_batch x dp = 2 x 8 = 16, as 16\n"
            "  found     ramp_up.increment 8\n"
            "  next      batch.ramp_up.increment=16",
        ),
        (
            RampUp(start=192, increment=48, samples=1000),
            "C105 the ramp-up does not end at the global batch\n"
            "  expected  ramp_up.start + whole increments of 48 = global_batch 2048, as ramp_up.start 176\n"
            "  found     ramp_up.start 192 and increment 48\n"
            "  next      batch.ramp_up.start=176",
        ),
        (
            RampUp(start=2048, increment=16, samples=1000),
            "C105 the ramp-up does not end at the global batch\n"
            "  expected  ramp_up.start + whole increments of 16 = global_batch 2048, as ramp_up.start 2032\n"
            "  found     ramp_up.start 2048 and increment 16\n"
            "  next      batch.ramp_up.start=2032",
        ),
        (
            RampUp(start=192, increment=16, samples=0),
            "C103 batch.ramp_up.samples is out of range\n  expected  at least 1\n  found     0",
        ),
    ],
)
def test_a_ramp_that_cannot_run_is_refused(ramp, expected):
    assert message(global_batch=2048, micro_batch=2, dp=8, ramp_up=ramp) == expected


def test_the_ramp_is_bloom_s_to_the_last_sample():
    # The log: "iteration 12695/ 115311 | consumed samples: 9841584", train-samples 220_000_000.
    assert BLOOM.samples_after(12_695) == 9_841_584
    assert BLOOM.steps_for(220_000_000) == 115_311
    assert BLOOM.samples_after(31_214) == 47_768_496
    assert BLOOM.samples_after(42_784) == 71_463_856
    assert BLOOM.samples_after(45_000) == 76_002_224
    assert (BLOOM.batch_at(0), BLOOM.accumulation_at(0)) == (192, 12)
    assert (BLOOM.batch_at(9_841_584), BLOOM.accumulation_at(9_841_584)) == (2048, 128)
    # "switched from MBS=1 to MBS=2 at GBS=784: 784 / (2 x 8) = 49 microbatches"
    phase = next(phase for phase in BLOOM.phases() if phase.global_batch == 784)
    assert BLOOM.accumulation_at(phase.first_sample) == 49


def test_the_sums_are_explained():
    assert BLOOM.explain() == (
        "global_batch 2,048 = micro_batch 2 x accumulation 128 x dp 8\n"
        "ramp-up 192 + 116 x 16 = 2,048, one increment each 84,186.4 samples: accumulation 12 to 128, "
        "full after 12,658 steps and 9,765,808 samples"
    )
    assert solve_batch(global_batch=32, micro_batch=4, dp=2).explain() == (
        "global_batch 32 = micro_batch 4 x accumulation 4 x dp 2"
    )


@given(
    start=st.integers(1, 9), increment=st.integers(1, 7), num_increments=st.integers(1, 12), samples=st.integers(1, 999)
)
def test_phases_are_the_step_by_step_ramp(start, increment, num_increments, samples):
    plan = solve_batch(
        global_batch=start + increment * num_increments,
        micro_batch=1,
        dp=1,
        ramp_up=RampUp(start=start, increment=increment, samples=samples),
    )
    consumed, batches = 0, []
    while len(batches) < 1100:
        # Megatron's rule, written out again: num_microbatches_calculator.py.
        batch = plan.global_batch
        if consumed <= samples:
            batch = start + int(consumed / (samples / num_increments)) * increment
        assert plan.batch_at(consumed) == batch
        assert plan.samples_after(len(batches)) == consumed
        assert plan.steps_for(consumed) == len(batches)
        assert plan.steps_for(consumed + batch - 1) == len(batches)
        batches.append(batch)
        consumed += batch


def test_the_ramp_keeps_megatron_s_rounding():
    # int(9 / (9 / 7)) is 6: after exactly 9 samples one increment is still to come; after 10 it is there.
    plan = solve_batch(global_batch=8, micro_batch=1, dp=1, ramp_up=RampUp(start=1, increment=1, samples=9))
    assert (plan.batch_at(9), plan.batch_at(10)) == (7, 8)


def test_a_ramp_of_billions_of_steps_is_quick():
    plan = solve_batch(global_batch=3, micro_batch=1, dp=1, ramp_up=RampUp(start=1, increment=1, samples=4_000_000_000))
    assert [phase.num_steps for phase in plan.phases()] == [2_000_000_000, 1_000_000_000, None]


@dataclass(frozen=True)
class Rates:
    lr: float = 6e-5
    lr_min: float = 6e-6
    warmup_samples: int = 183_105
    decay_samples: int | None = 200_000_000


@pytest.mark.parametrize(
    ("step", "printed"),
    [
        (12_695, "5.969E-05"),
        (31_214, "5.279E-05"),
        (31_221, "5.279E-05"),
        (31_222, "5.278E-05"),
        (31_250, "5.277E-05"),
        (42_780, "4.475E-05"),
        (45_000, "4.298E-05"),
    ],
)
def test_the_learning_rate_is_the_one_in_bloom_s_log(step, printed):
    assert f"{learning_rate(Rates(), BLOOM.samples_after(step), 220_000_000):.3E}" == printed


def test_the_learning_rate_warms_up_decays_and_stays():
    rates = Rates(lr=1.0, lr_min=0.1, warmup_samples=10, decay_samples=110)
    at = [learning_rate(rates, consumed, 1000) for consumed in (0, 5, 10, 60, 110, 111, 1000)]
    assert at == [0.0, 0.5, 1.0, pytest.approx(0.55), 0.1, 0.1, 0.1]


def test_without_decay_samples_the_decay_ends_with_the_run():
    rates = Rates(lr=1.0, lr_min=0.1, warmup_samples=0, decay_samples=None)
    assert learning_rate(rates, 0, 100) == 1.0
    assert learning_rate(rates, 99, 100) > 0.1
    assert learning_rate(rates, 100, 100) == 0.1
