"""The page: exact where it says so, warnings with their look-alikes, JSON that carries what the text shows."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from emberward.cli._preflight import page_of
from emberward.findings import ConfigError
from emberward.match import explain_finding
from emberward.perf import CLUSTERS, predict
from emberward.plan import SCHEDULES
from emberward.recipe import load_recipe, resolve
from emberward.report import (
    compare_first_steps,
    first_steps_text,
    plan_text,
    preflight,
    preflight_brief,
    preflight_json,
    preflight_text,
)
from emberward.report._preflight import step_plan_of
from emberward.report._schedule_choices import best_choice, schedule_choices
from emberward.report._step_shape import step_shape_of

BF16 = "precision.compute=bf16"


def page(*overrides: str, hardware: str | None = None, num_ranks: int = 8):
    loaded = load_recipe("bloom_tiny", list(overrides))
    return preflight(resolve(loaded, num_ranks=num_ranks, tokenizer_size=257), hardware=hardware)


def test_on_a_cpu_memory_is_exact_and_time_is_not_predicted():
    found = page()
    assert found.prediction is None
    assert "not predicted on CPU" in preflight_text(found)
    memory = found.roles[0].memory
    assert memory.weight_bytes == memory.gradient_bytes == 4 * memory.num_parameters
    assert memory.optimizer_bytes > 8 * memory.num_parameters


def test_every_layer_and_every_rank_is_on_the_page():
    found = page()
    layers = sorted(layer for role in found.roles for each in role.layers for layer in each)
    assert layers == [0, 1, 2, 3]
    assert [seat.rank for seat in found.seats] == list(range(8))
    assert sum(role.num_ranks for role in found.roles) == 8


def test_the_buffers_of_the_schedule_are_on_the_page_and_in_its_bytes():
    found = page()
    assert [(each.credit, each.count) for each in found.roles[0].buffers] == [("kept 0", 2), ("received 0B", 2)]
    assert "  pp 1  received 1F x1, kept 1 x1, leaving 1B x1" in preflight_text(found)
    assert preflight_json(found)["roles"][0]["buffers"] == {"kept 0": 2, "received 0B": 2}
    stream_bytes = 4 * 128 // 2 * 128 * 4
    bias_bytes = 2 * 4 // 2 * 128**2 * 4
    assert [role.memory.buffer_bytes for role in found.roles] == [2 * stream_bytes + bias_bytes] * 2
    alone = page("layout.pp=1", "layout.dp=4")
    assert "buffers of" not in preflight_text(alone)


def test_on_a_gpu_a_step_is_predicted():
    found = page(BF16, hardware="h100")
    assert found.prediction is not None
    assert 0 < found.prediction.mfu < 1
    assert "predicted on h100" in preflight_text(found)


def test_float32_is_not_predicted():
    assert page(hardware="h100").prediction is None


def test_few_micro_batches_are_warned_of_and_enough_are_not():
    few = page("batch.global_batch=16")
    assert few.num_mb == 2
    assert [explain_finding(finding) for finding in few.findings] == [
        "C114 2 micro-batches for 2 pipeline ranks: the pipeline idles 33% of a step; 4 or more are better"
        "  [warning, inferred]\n"
        "  next      batch.accumulation=4 batch.global_batch=null, or fewer pipeline ranks"
    ]
    assert page("batch.accumulation=4", "batch.global_batch=null").findings == ()
    assert page("batch.global_batch=16", "layout.pp=1", "layout.dp=4").findings == ()


def test_memory_that_a_device_lacks_is_warned_of_and_enough_is_not():
    sizes = ("model.hidden=16384", "model.num_heads=128", "model.num_layers=80", "model.seq_len=2048", BF16)
    assert [explain_finding(finding) for finding in page(*sizes, hardware="a100").findings] == [
        "C115 the fullest rank needs 1034.5 GiB, A100 80GB SXM has 80                            "
        "  [warning, inferred]\n"
        "  next      more tp or pp ranks, layout.zero=3 with layout.gathered_gb=0, model.recompute=true "
        "or a smaller batch.micro_batch"
    ]
    assert page(BF16, hardware="a100").findings == ()
    assert page(*sizes).findings == ()


def test_ranks_sit_on_nodes_of_the_hardware_or_on_the_hosts_that_are_named():
    nodes = page("layout.dp=4", "batch.global_batch=64", BF16, hardware="h100", num_ranks=16)
    assert [seat.host for seat in nodes.seats] == [None] * 16
    resolved = resolve(load_recipe("bloom_tiny", []), num_ranks=8, tokenizer_size=257)
    assert [seat.host for seat in preflight(resolved, hosts=("a", "b")).seats] == ["a"] * 4 + ["b"] * 4
    assert [seat.host for seat in page_of(resolved, hardware="h100").seats] == ["node 0"] * 8
    assert {seat.host for seat in page_of(resolved, hardware=None, host="this machine").seats} == {"this machine"}


def test_hardware_that_the_table_lacks_is_refused_with_what_it_has():
    resolved = resolve(load_recipe("bloom_tiny", []), num_ranks=8, tokenizer_size=257)
    with pytest.raises(ConfigError) as caught:
        page_of(resolved, hardware="b100")
    assert caught.value.text() == (
        "C103 no such hardware in the table\n"
        "  where     --hardware\n"
        f"  expected  one of {', '.join(CLUSTERS)}\n"
        "  found     b100\n"
        "  next      docs/preflight.md lists what each stands for"
    )
    assert {"a100", "h100-tcpx", "rtx-4090", "mi355x"} <= set(CLUSTERS)


def test_the_page_in_one_screen():
    found = page()
    first, *rest = preflight_brief(found).splitlines()
    assert first == "a pipeline rank (pp) at a time"
    plan, memory = plan_text(found).splitlines()
    assert plan == "plan        842,752 parameters on 8 ranks: pp 2 x dp_shard 2 x tp 2"
    assert re.fullmatch(r"memory      [\d.]+ MiB of tensors a rank at most", memory)
    assert " ".join(rest[0].split()) == (
        "pp ranks memory state activations other tp sent dp sent pp sent tied sent world sent layers"
    )
    assert [line.split()[:2] for line in rest[1:3]] == [["0", "4"], ["1", "4"]]
    assert [line.split()[-1] for line in rest[1:3]] == ["0-1", "2-3"]
    assert rest[3:] == [
        "  bubble      20.0% with 4 micro-batches",
        "  least idle  schedule=zb_h1 layout.stages_per_rank=2: 4.0%, 13.82 MiB",
        "  step time   not predicted on CPU",
    ]
    wide = preflight_brief(page("layout.dp=1", "layout.tp=1", "layout.pp=16", "model.num_layers=16", num_ranks=16))
    assert "  and 8 more pipeline ranks" in wide
    assert len(wide.splitlines()) < 24


def test_the_json_is_json_and_says_what_the_text_says():
    found = page(BF16, hardware="a100")
    value = json.loads(json.dumps(preflight_json(found)))
    assert value["prediction"]["step_s"] == pytest.approx(found.prediction.step_s)
    assert value["roles"][1]["memory"]["total_bytes"] == found.roles[1].memory.total_bytes
    assert value["bubble"] == found.bubble


def test_first_steps_stand_beside_the_page():
    found = page(BF16, hardware="h100")
    steps = [{"step": 1, "step_s": 9.0}, {"step": 2, "step_s": 2.0}, {"step": 3, "step_s": 4.0}]
    rows = {row.what: row for row in compare_first_steps(found, steps, held_bytes=200, peak_bytes=300)}
    assert rows["step_s"].measured == 3.0
    assert rows["step_s"].error == pytest.approx(found.prediction.step_s / 3.0 - 1)
    assert (rows["held_bytes"].measured, rows["peak_bytes"].measured) == (200, 300)
    assert rows["held_bytes"].predicted == max(r.memory.weight_bytes + r.memory.optimizer_bytes for r in found.roles)
    assert rows["mfu"].measured is None
    assert rows["mfu"].error is None
    text = first_steps_text(list(rows.values()), ())
    assert text.splitlines()[1] == f"  step time   3 s, {found.prediction.step_s:.3g} s predicted (-100%)"
    assert text.splitlines()[2].startswith("  memory      200 B of weights and moments a rank, ")


def test_without_a_step_nothing_is_said():
    assert first_steps_text(compare_first_steps(page(), []), ()) == ""


def test_the_time_counts_the_sharding_of_the_recipe():
    def optimizer_s(*overrides: str) -> float:
        found = page(BF16, "layout.dp=8", "layout.tp=1", "layout.pp=1", *overrides, hardware="a100").prediction
        assert found is not None
        return found.parts_s["optimizer"]

    sharded = optimizer_s("layout.zero=1")
    assert optimizer_s("layout.zero=0") == pytest.approx(8 * sharded)
    assert optimizer_s("layout.zero=1", "layout.dp_replicate=2") == pytest.approx(2 * sharded)


def test_the_hardware_of_the_docs_is_that_of_the_table():
    text = (Path(__file__).parents[3] / "docs" / "preflight.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in CLUSTERS)


def test_the_page_says_which_schedule_idles_least_where_it_fits():
    found = page()
    assert [(each.name, each.stages_per_rank) for each in found.choices if each.is_chosen] == [("1f1b", 1)]
    assert {each.name for each in found.choices} == set(SCHEDULES)
    shares = [each.bubble for each in found.choices]
    assert shares == sorted(shares)
    best = found.choices[0]
    line = f"least idle  {best.override}: 4.0%, "
    assert line in preflight_text(found) and line in preflight_brief(found)
    followed = page(*best.override.split())
    assert followed.bubble == pytest.approx(best.bubble)
    assert max(role.memory.total_bytes for role in followed.roles) >= best.memory_bytes
    assert "least idle" not in preflight_text(followed)
    assert preflight_json(found)["schedules"][0]["name"] == best.name


def test_a_schedule_that_does_not_fit_is_not_advised():
    recipe = resolve(load_recipe("bloom_tiny", []), num_ranks=8, tokenizer_size=257).recipe
    free = schedule_choices(recipe, memory_bytes=None)
    own = next(each for each in free if each.is_chosen)
    tight = schedule_choices(recipe, memory_bytes=own.memory_bytes)
    assert best_choice(tight) == next(each for each in tight if each.memory_bytes <= own.memory_bytes)
    assert best_choice(schedule_choices(recipe, memory_bytes=1)) is None
    assert page("layout.pp=1", "layout.dp=4").choices == ()


def test_the_ten_billion_roberta_runs_as_fast_as_published_with_the_source_s_gradients_of_16_bits():
    """DeepSpeed issue 1069: 178 samples a second on 16 hosts of 8 V100 under ZeRO 2, summing fp16 gradients."""
    shape = step_shape_of(resolve(load_recipe("roberta_10b", []), num_ranks=128, tokenizer_size=257).recipe)
    plan = step_plan_of(shape)
    theirs = replace(plan, reduce_bytes=2.0, accumulate_bytes=6.0)
    ours_s, theirs_s = (predict(shape.model, CLUSTERS["v100-efa"], each).step_s for each in (plan, theirs))
    assert 1024 / theirs_s == pytest.approx(178, rel=0.07)
    assert 1024 / ours_s == pytest.approx(160, rel=0.05)


def test_zero_3_is_priced_with_the_gathers_that_the_engine_makes():
    words = ["layout.zero=3", "batch.global_batch=4096"]
    shape = step_shape_of(resolve(load_recipe("roberta_10b", words), num_ranks=128, tokenizer_size=257).recipe)
    plan = step_plan_of(shape)
    # 8 passes over 30 layers: all but the first find two of them there; what lies beside the layers stays.
    total = shape.model.num_parameters
    layers = sum(math.prod(tensor.shape) for block in shape.model.layers for tensor in block.tensors)
    assert plan.gathered_shares is not None
    (share,) = plan.gathered_shares
    assert share == pytest.approx((layers * (8 - 14 / 30) + total - layers) / (8 * total), rel=1e-3)
    whole_s, ours_s = (
        predict(shape.model, CLUSTERS["v100-efa"], each).step_s for each in (replace(plan, gathered_shares=None), plan)
    )
    assert share < ours_s / whole_s < 1
    assert step_plan_of(replace(shape, zero=2)).gathered_shares is None
