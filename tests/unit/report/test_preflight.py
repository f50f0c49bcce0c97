"""The page: exact where it says so, warnings with their look-alikes, JSON that carries what the text shows."""

import json
from pathlib import Path

import pytest

from emberward.recipe import load_recipe, resolve
from emberward.report import compare_first_steps, preflight, preflight_json, preflight_text

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
    assert [warning for warning in few.warnings if "micro-batches" in warning] == [
        "2 micro-batches for 2 pipeline ranks: the pipeline idles 33% of a step; 4 or more are better"
    ]
    assert page("batch.global_batch=32").warnings == ()


def test_memory_that_a_device_lacks_is_warned_of_and_enough_is_not():
    sizes = ("model.hidden=16384", "model.num_heads=128", "model.num_layers=80", "model.seq_len=2048", BF16)
    assert any("GiB" in warning for warning in page(*sizes, hardware="a100").warnings)
    assert not any("GiB" in warning for warning in page(BF16, hardware="a100").warnings)


def test_the_json_is_json_and_says_what_the_text_says():
    found = page(BF16, hardware="a100")
    value = json.loads(json.dumps(preflight_json(found)))
    assert value["prediction"]["step_s"] == pytest.approx(found.prediction.step_s)
    assert value["roles"][1]["memory"]["total_bytes"] == found.roles[1].memory.total_bytes
    assert value["bubble"] == found.bubble


def test_first_steps_stand_beside_the_page():
    found = page(BF16, hardware="h100")
    steps = [{"step": 1, "step_s": 9.0}, {"step": 2, "step_s": 2.0}, {"step": 3, "step_s": 4.0}]
    rows = {row.what: row for row in compare_first_steps(found, steps, peak_bytes_by_rank={0: 100, 1: 200})}
    assert rows["step_s"].measured == 3.0
    assert rows["step_s"].error == pytest.approx(found.prediction.step_s / 3.0 - 1)
    assert rows["peak_bytes"].measured == 200
    assert rows["mfu"].measured is None
    assert rows["mfu"].error is None


def test_the_hardware_of_the_docs_is_that_of_the_table():
    from emberward.perf import CLUSTERS

    text = (Path(__file__).parents[3] / "docs" / "preflight.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in CLUSTERS)
