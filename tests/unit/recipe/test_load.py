"""Recipes by name, overrides, and how values are read."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from emberward.findings import ConfigError
from emberward.recipe import (
    BatchConfig,
    ComputeType,
    DataConfig,
    Device,
    LayoutConfig,
    ModelConfig,
    OptimConfig,
    RampUp,
    Recipe,
    Source,
    ZeroStage,
    load_recipe,
)
from emberward.recipe.presets import PRESETS, bloom_tiny

ROOT = Path(__file__).parents[3]


def written(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_room_needs_no_torch():
    code = "import sys, emberward.recipe.presets; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_named(name):
    loaded = load_recipe(name)
    assert loaded.recipe == PRESETS[name]()
    assert loaded.name == name
    assert loaded.origins["model.hidden"] == f"preset {name}"
    assert loaded.origins["seed"] == "default"


def test_a_preset_s_value_that_is_the_default_still_came_from_the_preset():
    assert bloom_tiny().schedule == Recipe().schedule
    assert load_recipe("bloom_tiny").origins["schedule"] == "preset bloom_tiny"


@pytest.mark.parametrize("name", ["bloom_tiny.py", "bloom_tiny.yaml"])
def test_the_examples_are_the_preset(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    loaded = load_recipe(f"recipes/{name}")
    assert loaded.recipe == bloom_tiny()
    file, _, line = loaded.origins["model.hidden"].partition(":")
    assert file == f"recipes/{name}"
    assert "hidden" in Path(file).read_text(encoding="utf-8").splitlines()[int(line) - 1]


def test_an_example_by_function_and_by_module(monkeypatch):
    monkeypatch.chdir(ROOT)
    expected = bloom_tiny()
    assert load_recipe("recipes/bloom_tiny.py:bloom_tiny").recipe == expected
    assert load_recipe("recipes.bloom_tiny:bloom_tiny").recipe == expected
    loaded = load_recipe("emberward.recipe.presets:bloom_tiny")
    assert loaded.recipe == expected
    assert loaded.origins["model.hidden"].startswith("src/emberward/recipe/presets.py:")


PYTHON = """
from dataclasses import dataclass, replace

from emberward.recipe import ModelConfig, Recipe
from emberward.recipe.presets import bloom_tiny


@dataclass
class Width:
    value: int


def _helper() -> Recipe:
    return Recipe()


def wide(width: int = 3) -> "Recipe":
    model = ModelConfig(
        hidden=Width(256).value,
    )
    recipe = replace(
        bloom_tiny(),
        model=model,
        steps=7,
    )
    return recipe
"""


def test_a_function_s_keys_are_traced_to_their_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "wide.py", PYTHON)
    loaded = load_recipe("wide.py")
    assert loaded.recipe == replace(bloom_tiny(), model=ModelConfig(hidden=256), steps=7)
    assert loaded.origins["model.hidden"] == "wide.py:19"
    assert loaded.origins["steps"] == "wide.py:24"
    # Set by the function in a way that has no line of its own; and not set at all.
    assert loaded.origins["layout.tp"] == "wide.py:17"
    assert loaded.origins["model.num_layers"] == "default"


def test_a_recipe_in_python_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    load_recipe(written(tmp_path, "wide.py", PYTHON))
    assert [path.name for path in tmp_path.iterdir()] == ["wide.py"]
    assert sys.path == before


def test_plain_numbers_of_python_become_enums_and_tuples(tmp_path):
    text = (
        "from emberward.recipe import *\n"
        "def mine():\n"
        "    return Recipe(layout=LayoutConfig(zero=3, stage_layers=[2, 2]), optim=OptimConfig(lr=1),\n"
        "                  device='cpu', data=DataConfig(train=('a.txt', Source(path='b', weight=2))))\n"
    )
    recipe = load_recipe(written(tmp_path, "mine.py", text)).recipe
    assert recipe.layout == LayoutConfig(zero=ZeroStage.PARAMETERS, stage_layers=(2, 2))
    assert isinstance(recipe.layout.zero, ZeroStage)
    assert isinstance(recipe.optim.lr, float)
    assert recipe.device is Device.CPU
    assert recipe.data.train == (Source(path="a.txt"), Source(path="b", weight=2.0))


def test_yaml_1_1_s_traps_do_not_catch(tmp_path):
    text = """\
name: no
steps: 0o7
seed: 1_000
timeout_s: 1e+2
sample_prompt: 2024-01-01
train_samples: 0x10
optim: {lr: 1e-4, lr_min: .5, weight_decay: 0, clip: ~}
model: {recompute: off, init_std: 2}
data: {tokenizer: 12:30, cache: null}
log:
  wandb: yes
batch:
"""
    plain = yaml.safe_load(text)
    # What YAML 1.1 would have made of it:
    assert (plain["name"], plain["optim"]["lr"], plain["data"]["tokenizer"]) == (False, "1e-4", 750)
    recipe = load_recipe(written(tmp_path, "traps.yaml", text)).recipe
    assert (recipe.name, recipe.steps, recipe.seed, recipe.timeout_s) == ("no", 7, 1000, 100.0)
    assert (recipe.sample_prompt, recipe.train_samples) == ("2024-01-01", 16)
    assert recipe.optim == OptimConfig(lr=1e-4, lr_min=0.5, weight_decay=0.0, clip=None)
    assert recipe.model == ModelConfig(recompute=False, init_std=2.0)
    assert (recipe.data.tokenizer, recipe.data.cache, recipe.log.wandb) == ("12:30", None, "yes")
    assert recipe.batch == BatchConfig()


FILES = {
    "mine.yaml": """\
# Comments count as lines.
name: "mine"

layout:
  tp: 2
  stage-layers: [1, 3]
batch.global_batch: 64
batch:
  ramp_up: {start: 8, increment: 8, samples: 1000}
data:
  train:
    - a.txt
    - path: b
      weight: 3
precision: {compute: BF16}
""",
    "mine.toml": """\
# Comments count as lines.
name = "mine"
batch.global_batch = 64
[layout]
tp = 2
"stage-layers" = [
  1,
  3,
]
[batch.ramp_up]
start = 8
increment = 8
samples = 1000
[[data.train]]
path = "a.txt"
[[data.train]]
path = "b"
weight = 3
[precision]
compute = "bf16"
""",
}
MINE = Recipe(
    name="mine",
    layout=LayoutConfig(tp=2, stage_layers=(1, 3)),
    batch=BatchConfig(global_batch=64, ramp_up=RampUp(start=8, increment=8, samples=1000)),
    data=DataConfig(train=(Source(path="a.txt"), Source(path="b", weight=3.0))),
)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "mine.yaml",
            {"name": 2, "layout.tp": 5, "layout.stage_layers": 6, "batch.global_batch": 7, "batch.ramp_up.start": 9,
             "data.train": 11, "precision.compute": 15},
        ),
        (
            "mine.toml",
            {"name": 2, "layout.tp": 5, "layout.stage_layers": 6, "batch.global_batch": 3, "batch.ramp_up.start": 11,
             "data.train": 14, "precision.compute": 20},
        ),
    ],
)  # fmt: skip
def test_a_file_s_values_know_their_lines(name, lines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, name, FILES[name])
    loaded = load_recipe(name)
    assert loaded.recipe == replace(MINE, precision=replace(MINE.precision, compute=ComputeType.BF16))
    assert {key: loaded.origins[key] for key in lines} == {key: f"{name}:{line}" for key, line in lines.items()}
    assert loaded.origins["seed"] == "default"


def test_a_text_of_several_lines_hides_no_line_of_toml(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "t.toml", 'sample_prompt = """\nsteps = 1\n[model]\n"""\nsteps = 5\n')
    loaded = load_recipe("t.toml")
    assert loaded.recipe.sample_prompt == "steps = 1\n[model]\n"
    assert loaded.origins["steps"] == "t.toml:5"


def test_an_empty_file_is_the_default_recipe(tmp_path):
    assert load_recipe(written(tmp_path, "e.yaml", "# nothing\n")).recipe == Recipe()
    assert load_recipe(written(tmp_path, "e.toml", "")).recipe == Recipe()


@pytest.mark.parametrize(
    "overrides",
    [
        ["layout.tp=4", "optim.lr=1e-3", "model.recompute=true"],
        ["--layout.tp", "4", "--optim.lr", "1e-3", "--model.recompute"],
        ["--layout.tp=4", "--optim.lr=1e-3", "--model.recompute", "yes"],
        ["--model.recompute", "layout.tp=8", "layout={tp: 4}", "optim={lr: 1e-3}"],
    ],
)
def test_overrides_are_written_in_any_of_three_ways(overrides):
    loaded = load_recipe("bloom_tiny", overrides)
    base = bloom_tiny()
    assert loaded.recipe == replace(
        base,
        layout=replace(base.layout, tp=4),
        optim=replace(base.optim, lr=1e-3),
        model=replace(base.model, recompute=True),
    )
    changed = {key for key, origin in loaded.origins.items() if origin == "command line"}
    assert changed == {"layout.tp", "optim.lr", "model.recompute"}


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("data.train=my.txt", (Source(path="my.txt"),)),
        ("data.train=a.txt,b.txt", (Source(path="a.txt"), Source(path="b.txt"))),
        (
            "data.train=[a.txt, {path: b, weight: 2, name: bee}]",
            (Source(path="a.txt"), Source(path="b", weight=2.0, name="bee")),
        ),
        ("data.train={path: b}", (Source(path="b"),)),
        ("data.train=[]", ()),
    ],
)
def test_sources_are_written_as_paths_or_in_full(override, value):
    assert load_recipe("bloom_tiny", [override]).recipe.data.train == value


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("batch.ramp-up=8,8,1000", RampUp(start=8, increment=8, samples=1000)),
        ("batch.ramp_up=[8, 8, 1000]", RampUp(start=8, increment=8, samples=1000)),
        ("batch.ramp_up={start: 8, increment: 8, samples: 1000}", RampUp(start=8, increment=8, samples=1000)),
        ("batch.ramp_up=null", None),
    ],
)
def test_a_ramp_up_is_three_numbers_or_null(override, value):
    assert load_recipe("bloom_tiny", [override]).recipe.batch.ramp_up == value


def test_a_ramp_up_is_turned_off_and_on_again():
    on, off = "batch.ramp_up=8,8,1000", "batch.ramp_up=none"
    unset = load_recipe("bloom_tiny", [on, off])
    assert unset.recipe == bloom_tiny()
    assert {key for key in unset.origins if "ramp_up" in key} == {"batch.ramp_up"}
    loaded = load_recipe("bloom_tiny", [off, on, "batch.ramp_up.start=16"])
    assert loaded.recipe.batch.ramp_up == RampUp(start=16, increment=8, samples=1000)
    assert "batch.ramp_up" not in loaded.origins


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("optim.clip=none", "optim.clip", None),
        ("log.wandb=null", "log.wandb", None),
        ("sample_prompt=", "sample_prompt", ""),
        ("sample_prompt=[1, a=b", "sample_prompt", "[1, a=b"),
        ("device=CUDA", "device", Device.CUDA),
        ("layout.zero=0", "layout.zero", ZeroStage.NONE),
        ("optim.betas=[0.8, 1e-2]", "optim.betas", (0.8, 0.01)),
        ("optim.eps=1e-12", "optim.eps", 1e-12),
        ("steps=+1_000", "steps", 1000),
    ],
)
def test_an_override_is_read_by_its_key_s_type(override, key, value):
    found = load_recipe("bloom_tiny", [override]).recipe
    for part in key.split("."):
        found = getattr(found, part)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text", ["1:30", "nan", ".inf", "1e", "--1", "1__0", "0x", "", "1,000", "0.5", "٣", "1 2", "²"]
)  # fmt: skip
def test_what_only_looks_like_a_whole_number_is_refused(text):
    with pytest.raises(ConfigError, match="C102 seed has the wrong type"):
        load_recipe("bloom_tiny", [f"seed={text}"])


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", ".nan", "1e999", "1:30", "", "1e-4f", "0x10", "true", "1__0_"])
def test_what_only_looks_like_a_number_is_refused(text):
    with pytest.raises(ConfigError, match=r"C102 optim\.lr has the wrong type"):
        load_recipe("bloom_tiny", [f"optim.lr={text}"])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_that_python_writes_is_read_back(number):
    assert load_recipe("bloom_tiny", [f"optim.lr={number!r}"]).recipe.optim.lr == number


@given(st.integers())
def test_every_whole_number_that_python_writes_is_read_back(number):
    assert load_recipe("bloom_tiny", [f"seed={number}"]).recipe.seed == number


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("Yes", True), ("on", True), ("false", False), ("no", False), ("OFF", False)]
)
def test_a_flag_takes_the_words_of_yaml(text, value):
    assert load_recipe("bloom_tiny", ["--layout.sequence-parallel", text]).recipe.layout.sequence_parallel is value


def test_none_in_quotes_is_a_text_where_a_text_may_stand(tmp_path):
    loaded = load_recipe(written(tmp_path, "q.yaml", 'log: {wandb: "none"}\noptim: {clip: "none"}\n'))
    assert (loaded.recipe.log.wandb, loaded.recipe.optim.clip) == ("none", None)


def test_the_last_of_two_overrides_wins():
    assert load_recipe("bloom_tiny", ["steps=1", "--steps", "2"]).recipe.steps == 2


def test_a_value_may_look_like_an_option():
    assert load_recipe("bloom_tiny", ["--optim.lr", "-1", "--sample-prompt", "--x=y"]).recipe.sample_prompt == "--x=y"


def test_a_missing_name_is_null_for_a_text_that_must_be(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_recipe(written(tmp_path, "n.yaml", "name:\n"))
    assert (caught.value.code, caught.value.found) == ("C102", "null")


def test_foreign_names_point_to_keys_that_exist():
    from emberward.recipe._foreign import FOREIGN
    from emberward.recipe._schema import keys

    assert len(FOREIGN) >= 30
    for name, meant in FOREIGN.items():
        assert meant.ours is None or meant.ours in keys(), name
        assert meant.ours is not None or meant.note, name
        assert name not in keys(), name
        with pytest.raises(ConfigError, match=f"C101 unknown key {name}\n"):
            load_recipe("bloom_tiny", [f"{name}=1"])


def test_a_recipe_may_exit_without_taking_the_launcher_along(tmp_path):
    with pytest.raises(ConfigError, match="SystemExit: 3"):
        load_recipe(written(tmp_path, "x.py", "import sys\nsys.exit(3)\n"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.yaml", "data: " + "[" * 5000 + "]" * 5000),
        ("deep.toml", "data = " + "[" * 5000 + "]" * 5000),
        ("deep.py", "x = " + "(" * 5000 + ")" * 5000),
        ("nul.yaml", "name: \x00"),
        ("nul.py", "x = 1\x00"),
        ("laughs.yaml", "a: &a [1,1,1,1,1,1,1,1]\n" + "".join(
            f"{new}: &{new} [" + ",".join([f"*{old}"] * 8) + "]\n" for old, new in zip("abcde", "bcdef", strict=True))),
    ],
)  # fmt: skip
def test_a_file_made_to_break_its_reader_is_refused(name, text, tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_recipe(written(tmp_path, name, text))
    assert caught.value.code == "C106"


def test_numbers_beyond_all_bounds_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="C102"):
        load_recipe("bloom_tiny", ["seed=" + "9" * 5000])
    text = "from emberward.recipe import *\ndef f(): return Recipe(optim=OptimConfig(lr=10**400))\n"
    with pytest.raises(ConfigError, match="C102"):
        load_recipe(written(tmp_path, "huge.py", text))


@given(st.text(max_size=200))
def test_no_text_makes_the_reader_of_yaml_raise_anything_else(text):
    from emberward.recipe._document import toml_table, yaml_table

    for read in (yaml_table, toml_table):
        try:
            read(text, "any")
        except ConfigError as error:
            assert error.code == "C106"
