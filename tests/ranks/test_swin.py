"""Swin trains on every layout as on one rank, with drop path and dropout on; the two runs of the first deadlock report.

That report (a Swin on 2 x 2 x 2 ranks) ran with micro-batch 8 x 2 and hung with 32 x 4.
"""

import functools
import shutil

import numpy as np
import pytest

from ranks.cases import assemble, relative
from ranks.distance import ALL_LOSSES, FIRST_LOSS, GRADIENT, require_exact
from ranks.runs import curve
from ranks.save_cases import train
from ranks.swin_cases import digit_manifests, swin_plain, swin_run

STEPS = 4
TABLE = "swin.encoder.layers.3.blocks.1.attention.self.relative_position_bias_table"

GRID = {
    "dp2 tp2 pp2": {"dp": 2, "tp": 2, "pp": 2, "micro_batch": 4, "accumulation": 4},
    "tp2 with heads 2 to 1": {"tp": 2, "micro_batch": 16, "accumulation": 2},
    "dp2 zero0 acc2": {"dp": 2, "zero": 0, "micro_batch": 8, "accumulation": 2},
    "dp4 zero3 acc2 recompute": {"dp": 4, "zero": 3, "micro_batch": 4, "accumulation": 2, "recompute": True},
    "tp3 one head each": {"tp": 3, "micro_batch": 32},
    "pp3 gpipe, each stage its own width": {"pp": 3, "micro_batch": 4, "accumulation": 8, "schedule": "gpipe"},
    "dp2 pp2 interleaved zero2": {
        "dp": 2, "pp": 2, "zero": 2, "micro_batch": 4, "accumulation": 4, "schedule": "interleaved",
        "stages_per_rank": 2,
    },
    "hsdp 2x2 zero3": {"dp": 4, "dp_replicate": 2, "zero": 3, "micro_batch": 4, "accumulation": 2},
    "tp2 pp4": {"tp": 2, "pp": 4, "micro_batch": 8, "accumulation": 4},
    "dp2 tp2 pp2 zero3 recompute": {
        "dp": 2, "tp": 2, "pp": 2, "zero": 3, "micro_batch": 8, "accumulation": 2, "recompute": True,
    },
    "dp2 tp2 zero2 without dropout": {"dp": 2, "tp": 2, "zero": 2, "micro_batch": 8, "accumulation": 2, "rates": False},
    "one rank acc8 recompute": {"micro_batch": 4, "accumulation": 8, "recompute": True},
}  # fmt: skip
"""32 samples a step."""


@pytest.fixture(scope="module")
def manifests(tmp_path_factory):
    return digit_manifests(tmp_path_factory.mktemp("digits"))


@functools.cache
def reference(model: str, manifest: str, global_batch: int, steps: int, rates: bool):
    return swin_plain(model=model, manifest=manifest, steps=steps, global_batch=global_batch, rates=rates)


def num_ranks(layout) -> int:
    return layout.get("dp", 1) * layout.get("tp", 1) * layout.get("pp", 1)


def held_against_one_rank(pool, manifests, model, layout, *, steps=STEPS):
    """The answers of the ranks and the plain run, after all that must be equal was found so."""
    answers = pool.run(swin_run, num_ranks(layout), model=model, manifest=manifests[model], steps=steps, **layout)
    global_batch = layout["micro_batch"] * layout.get("accumulation", 1) * layout.get("dp", 1)
    expected = reference(model, manifests[model], global_batch, steps, layout.get("rates", True))
    require_exact(answers, expected)
    for name, whole in assemble(answers, "grads").items():
        exact = expected["grads"][name]
        assert np.linalg.norm(whole - exact) < GRADIENT * np.linalg.norm(exact) + 1e-9, name
    return answers, expected


@pytest.mark.parametrize("layout", GRID.values(), ids=GRID.keys())
def test_a_layout_equals_one_process(pool, manifests, layout):
    held_against_one_rank(pool, manifests, "small", layout)


SEED_0 = {
    "micro-batch 8 x 2": ({"dp": 2, "tp": 2, "pp": 2, "micro_batch": 8, "accumulation": 2}, 20),
    "micro-batch 32 x 4": ({"dp": 2, "tp": 2, "pp": 2, "micro_batch": 32, "accumulation": 4}, 8),
}


@pytest.mark.parametrize(("layout", "steps"), SEED_0.values(), ids=SEED_0.keys())
def test_the_runs_of_the_first_deadlock_report_equal_one_rank_and_their_loss_falls(pool, manifests, layout, steps):
    answers, expected = held_against_one_rank(pool, manifests, "four stages", layout, steps=steps)
    losses = answers[0]["loss"]
    assert np.mean(losses[-3:]) < losses[0]
    table = assemble(answers, "grads")[TABLE]
    assert np.linalg.norm(table) > 0
    assert np.linalg.norm(table - expected["grads"][TABLE]) < GRADIENT * np.linalg.norm(table)


def test_a_bias_table_whose_gradient_is_one_percent_wrong_is_caught(pool, manifests):
    layout = {"tp": 2, "micro_batch": 16, "accumulation": 2}
    with pytest.raises(AssertionError, match="relative_position_bias_table"):
        answers = pool.run(swin_run, 2, model="small", manifest=manifests["small"], steps=1, poison=1.01, **layout)
        expected = reference("small", manifests["small"], 32, STEPS, True)
        for name, whole in assemble(answers, "grads").items():
            exact = expected["grads"][name]
            assert np.linalg.norm(whole - exact) < GRADIENT * np.linalg.norm(exact) + 1e-9, name


def test_the_same_layout_twice_is_bitwise_equal(pool, manifests):
    layout = {"dp": 2, "tp": 2, "pp": 2, "micro_batch": 8, "accumulation": 2}
    first, second = (
        pool.run(swin_run, 8, model="small", manifest=manifests["small"], steps=4, **layout) for _ in range(2)
    )
    for one, two in zip(first, second, strict=True):
        assert one["loss"] == two["loss"] and one["norm"] == two["norm"]
        assert all(a[3].tobytes() == b[3].tobytes() for a, b in zip(one["grads"], two["grads"], strict=True))


@pytest.mark.parametrize("lane", ["own", "fed_by_forwards"])
def test_backwards_on_a_lane_of_their_own_give_the_same_bits(pool, manifests, lane):
    """The first stage runs forwards and backwards at the same time; with two micro-batches either plan ends."""
    layout = {"dp": 2, "tp": 2, "pp": 2, "zero": 0, "micro_batch": 4, "accumulation": 4 if lane == "own" else 2}
    one, two = (
        pool.run(swin_run, 8, model="small", manifest=manifests["small"], steps=2, backward_lane=kind, **layout)
        for kind in ("shared", lane)
    )
    for shared, apart in zip(one, two, strict=True):
        assert apart["loss"] == shared["loss"] and apart["norm"] == shared["norm"]
        assert all(a[3].tobytes() == b[3].tobytes() for a, b in zip(shared["grads"], apart["grads"], strict=True))


def test_drop_path_and_dropout_are_on(manifests):
    on, off = (reference("small", manifests["small"], 32, STEPS, rates) for rates in (True, False))
    assert relative(on["loss"][:1], off["loss"][:1]) > 100 * FIRST_LOSS


def test_a_run_is_resumed_bitwise_and_goes_on_alike_on_another_layout(pool, manifests, tmp_path):
    straight, crashed, other = (tmp_path / name for name in ("straight", "crashed", "other"))
    settings = {"steps": 6, "swin": manifests["small"], "sequence_parallel": False, "accumulation": 2}
    pool.run(train, 2, folder=str(straight), tp=2, **settings)
    pool.run(train, 2, folder=str(crashed), tp=2, crash_at=5, **settings)
    assert curve(crashed) == curve(straight)[:5]
    shutil.copytree(crashed, other, symlinks=True)
    answers = pool.run(train, 2, folder=str(crashed), tp=2, **settings)
    assert {answer["resumed"] for answer in answers} == {4}
    assert curve(crashed) == curve(straight)
    pool.run(train, 4, folder=str(other), dp=2, pp=2, zero=3, **settings)
    losses = [[loss for _, loss, _, _ in curve(folder)] for folder in (other, straight)]
    assert relative(*losses) < ALL_LOSSES
