"""config.resolved.yaml: written whole or not at all, read back unchanged, read by others alike."""

import string
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emberward.findings import ConfigError
from emberward.recipe import (
    BatchConfig,
    DataConfig,
    Loaded,
    OptimConfig,
    RampUp,
    Recipe,
    Resolved,
    Source,
    load_recipe,
    read_resolved,
    recipe_yaml,
    resolve,
    write_resolved,
)
from emberward.recipe.presets import PRESETS


def resolved(name: str = "bloom_tiny", *overrides: str) -> Resolved:
    return resolve(load_recipe(name, overrides), num_ranks=8, tokenizer_size=257)


@pytest.mark.parametrize("name", PRESETS)
def test_what_was_written_is_read_back(name, tmp_path):
    done = resolved(
        name, "batch.micro_batch=1", "batch.ramp_up=16,16,1000", "data.train=[a.txt, {path: b, weight: 2, name: bee}]",
        "layout.dp=2", "layout.tp=2", "layout.pp=2", "layout.stage_layers=null",
    )  # fmt: skip
    path = tmp_path / "config.resolved.yaml"
    write_resolved(done, path)
    assert read_resolved(path) == done
    assert [each.name for each in tmp_path.iterdir()] == ["config.resolved.yaml"]


def test_as_a_recipe_it_runs_again_and_every_value_came_from_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = resolved("bloom_tiny", "optim.lr=1e-5", "optim.lr_min=0")
    write_resolved(done, Path("config.resolved.yaml"))
    loaded = load_recipe("config.resolved.yaml")
    assert loaded.recipe == done.recipe
    assert resolve(loaded, num_ranks=8, tokenizer_size=257).recipe == done.recipe
    lines = Path("config.resolved.yaml").read_text(encoding="utf-8").splitlines()
    for key, origin in loaded.origins.items():
        line = lines[int(origin.removeprefix("config.resolved.yaml:")) - 1]
        assert line.split(":")[0].strip() == key.rpartition(".")[2]
        assert line.endswith(f"  # {done.origins[key]}")


def test_other_readers_of_yaml_1_1_see_the_same_values(tmp_path):
    path = tmp_path / "c.yaml"
    write_resolved(
        resolved("bloom_tiny", "optim.lr=1e-5", "optim.lr_min=0", "optim.eps=1e-300", "name=no", "sample_prompt=1e5"),
        path,
    )
    plain = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert (plain["optim"]["lr"], plain["optim"]["eps"], plain["name"]) == (1e-5, 1e-300, "no")
    assert (plain["sample_prompt"], plain["batch"]["ramp_up"], plain["layout"]["zero"]) == ("1e5", None, 1)
    assert plain["data"]["train"] == [{"path": "stdlib", "weight": 1.0, "name": None}]


def test_the_batch_sums_and_the_notes_stand_in_the_file(tmp_path):
    path = tmp_path / "c.yaml"
    done = resolved("bloom_tiny", "batch.global_batch=8")
    write_resolved(done, path)
    assert "# global_batch 8 = micro_batch 4 x accumulation 1 x dp 2\n" in path.read_text(encoding="utf-8")
    assert read_resolved(path).notes == done.notes != ()


TEXTS = st.text(min_size=1, max_size=20)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(min_value=1)
RECIPES = st.builds(
    Recipe,
    seed=st.integers(),
    steps=COUNTS | st.none(),
    timeout_s=FLOATS,
    sample_prompt=TEXTS,
    batch=st.builds(
        BatchConfig,
        global_batch=COUNTS | st.none(),
        ramp_up=st.builds(RampUp, start=COUNTS, increment=COUNTS, samples=COUNTS) | st.none(),
    ),
    optim=st.builds(OptimConfig, lr=FLOATS, betas=st.tuples(FLOATS, FLOATS), clip=FLOATS | st.none()),
    data=st.builds(
        DataConfig,
        train=st.lists(st.builds(Source, path=TEXTS, weight=FLOATS, name=TEXTS | st.none()), max_size=3).map(tuple),
        cache=TEXTS | st.none(),
    ),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recipe=RECIPES)
def test_any_recipe_is_read_back_from_its_yaml(recipe, tmp_path):
    path = tmp_path / "any.yaml"
    path.write_text(recipe_yaml(recipe), encoding="utf-8")
    assert load_recipe(str(path)).recipe == recipe


def test_a_file_that_was_cut_anywhere_is_refused(tmp_path):
    path = tmp_path / "c.yaml"
    write_resolved(resolved(), path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for number in range(len(lines)):
        path.write_text("".join(lines[:number]), encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            read_resolved(path)
        assert caught.value.code == "C106"
    path.write_text("".join(lines), encoding="utf-8")
    assert read_resolved(path) == resolved()


def test_a_file_of_another_format_is_refused(tmp_path):
    path = tmp_path / "c.yaml"
    write_resolved(resolved(), path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("  format: 1\n", "  format: 2\n"), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_resolved(path)
    assert caught.value.text() == (
        f"C106 the resolved recipe has another format\n  where     {path}\n  expected  format 1\n  found     format 2"
    )


def test_an_origin_that_is_missing_is_noticed(tmp_path):
    path = tmp_path / "c.yaml"
    write_resolved(resolved(), path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('    seed: "default"\n', ""), encoding="utf-8")
    with pytest.raises(ConfigError, match="C106 the resolved recipe is incomplete"):
        read_resolved(path)


def test_a_key_that_came_with_a_later_version_has_its_default(tmp_path):
    path = tmp_path / "c.yaml"
    before = resolved()
    write_resolved(before, path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    gone = ("  verify:", "    save.verify:", "seed:", "    seed:")  # one of a section and one of none
    path.write_text("".join(line for line in lines if not line.startswith(gone)), encoding="utf-8")
    after = read_resolved(path)
    assert after.recipe == before.recipe
    assert {key for key in after.origins if after.origins[key] != before.origins[key]} == {"save.verify", "seed"}
    assert after.origins["seed"] == "default, as the run began before the key was there"


def test_a_plain_recipe_is_not_a_resolved_one(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("steps: 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="C106 the resolved recipe is cut short"):
        read_resolved(path)


def test_a_write_replaces_what_was_there_in_one_move(tmp_path):
    path = tmp_path / "c.yaml"
    write_resolved(resolved(), path)
    held = path.open(encoding="utf-8")
    with held:
        before = path.read_text(encoding="utf-8")
        write_resolved(resolved("bloom_tiny", "steps=7"), path)
        assert held.read() == before, "the old file was written over"
    assert read_resolved(path).recipe.steps == 7


def test_an_origin_with_a_line_break_does_not_break_the_file(tmp_path):
    done = resolved()
    odd = replace(done, origins={**done.origins, "seed": "a\nb.yaml:3"})
    path = tmp_path / "c.yaml"
    write_resolved(odd, path)
    assert read_resolved(path) == odd
    assert load_recipe(str(path)).recipe == done.recipe


def test_printable_ascii_survives_in_every_text(tmp_path):
    done = resolve(
        Loaded(
            name="x",
            recipe=replace(load_recipe("bloom_tiny").recipe, sample_prompt=string.printable),
            origins=load_recipe("bloom_tiny").origins,
        ),
        num_ranks=8,
        tokenizer_size=257,
    )
    path = tmp_path / "c.yaml"
    write_resolved(done, path)
    assert read_resolved(path) == done
