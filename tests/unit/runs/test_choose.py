"""Resume or start anew, never a mix."""

import json
from pathlib import Path

import pytest

from emberward.findings import ConfigError
from emberward.recipe import load_recipe, resolve
from emberward.report import append_line
from emberward.runs import Intent, begin, choose_run


def recipe(*overrides: str, ranks: int = 8):
    return resolve(load_recipe("bloom_tiny", list(overrides)), num_ranks=ranks, tokenizer_size=257)


COMMAND = "emberward train bloom_tiny"


def choose(runs: Path, resolved, intent=Intent.AUTO, *, run_id=None, new_id="new"):
    return choose_run(runs, resolved, intent=intent, run_id=run_id, new_id=new_id, command=COMMAND)


def trained(start) -> None:
    """Leaves what one step leaves."""
    append_line(start.folder.metrics, {"step": 1, "loss": 5.0})


@pytest.fixture
def runs(tmp_path):
    """A root with one unfinished run, ``first``."""
    start = choose(tmp_path, recipe(), new_id="first")
    begin(start, recipe(), tmp_path / "manifest.json")
    trained(start)
    return tmp_path


def finish(runs: Path, run_id: str) -> None:
    (runs / "bloom_tiny" / run_id / "summary.json").write_text(json.dumps({"outcome": "done"}))


def test_the_first_start_is_new(tmp_path):
    start = choose(tmp_path, recipe())
    assert (start.is_resume, start.folder.path) == (False, tmp_path / "bloom_tiny" / "new")
    assert not start.folder.path.exists()


def test_an_unfinished_run_goes_on_and_says_so(runs):
    start = choose(runs, recipe())
    assert (start.is_resume, start.folder.id, start.why) == (True, "first", "resumes bloom_tiny/first")


def test_where_hosts_may_come_and_go_the_layout_may_change_and_nothing_else(runs):
    def start(resolved):
        return choose_run(runs, resolved, intent=Intent.AUTO, run_id=None, new_id="new", command=COMMAND, may_move=True)

    fewer = recipe("layout.dp=1", "layout.tp=2", "layout.pp=2", ranks=4)
    assert start(fewer).is_resume
    with pytest.raises(ConfigError, match="C107"):
        choose(runs, fewer)
    with pytest.raises(ConfigError, match="C107"):
        start(recipe("optim.lr=2e-3"))


def test_what_does_not_change_the_curve_may_change(runs):
    assert choose(runs, recipe("save.interval=7", "log.tensorboard=true")).is_resume


def test_another_recipe_is_refused_by_the_keys_that_differ(runs):
    with pytest.raises(ConfigError) as caught:
        choose(runs, recipe("optim.lr=2e-3", "seed=7"))
    assert str(caught.value).replace(str(runs), "runs") == (
        "C107 run bloom_tiny/first is not finished and has another recipe\n"
        "  where     runs/bloom_tiny/first/config.resolved.yaml\n"
        "  expected  seed=1234 optim.lr=0.005\n"
        "  found     seed=7 optim.lr=0.002\n"
        "  next      emberward train bloom_tiny --fresh"
    )


def test_values_of_a_refusal_are_written_as_overrides_are(runs):
    sources = "data.train=[{path: a.txt, weight: 2, name: x}, b.txt]"
    with pytest.raises(ConfigError) as caught:
        choose(
            runs, recipe("layout.zero=2", "precision.compute=bf16", sources, "optim.clip=null", "optim.betas=0.9,0.99")
        )
    old, new = caught.value.expected, caught.value.found
    assert old == "layout.zero=1 optim.betas=0.9,0.95 optim.clip=1.0 precision.compute=fp32 data.train=stdlib"
    assert new == (
        "layout.zero=2 optim.betas=0.9,0.99 optim.clip=null precision.compute=bf16 "
        "data.train=[{path: a.txt, weight: 2.0, name: x},b.txt]"
    )
    again = new.replace("data.train=", "").split(" ", 4)
    assert recipe(*again[:4], f"data.train={again[4]}").recipe.data.train == recipe(sources).recipe.data.train


def test_a_start_that_never_trained_does_not_block_and_is_named(runs):
    begin(choose(runs, recipe("seed=9"), Intent.FRESH, new_id="failed"), recipe("seed=9"), runs / "manifest.json")
    for intent in (Intent.AUTO, Intent.RESUME):
        start = choose(runs, recipe(), intent)
        assert start.why == "resumes bloom_tiny/first; bloom_tiny/failed never trained a step and has another recipe"
    start = choose(runs, recipe("seed=9"))
    assert start.why == "resumes bloom_tiny/failed", "of an equal recipe it goes on in its folder"
    with pytest.raises(ConfigError, match="run bloom_tiny/failed is not finished and has another recipe"):
        choose(runs, recipe(), Intent.RESUME, run_id="failed")


def test_only_failed_starts_leave_a_new_run(tmp_path):
    begin(choose(tmp_path, recipe("seed=9"), new_id="failed"), recipe("seed=9"), tmp_path / "manifest.json")
    start = choose(tmp_path, recipe())
    assert not start.is_resume
    assert start.why == "new run bloom_tiny/new; bloom_tiny/failed never trained a step and has another recipe"
    with pytest.raises(ConfigError) as caught:
        choose(tmp_path, recipe(), Intent.RESUME)
    assert caught.value.found == "none that trained a step"


def test_a_save_counts_as_trained_even_where_the_metrics_are_lost(tmp_path):
    first = choose(tmp_path, recipe("seed=9"), new_id="first")
    begin(first, recipe("seed=9"), tmp_path / "manifest.json")
    (first.folder.checkpoints / "step-00000001").mkdir(parents=True)
    with pytest.raises(ConfigError, match="C107"):
        choose(tmp_path, recipe())


def test_another_layout_needs_to_be_asked_for(runs):
    other = recipe("layout.dp=4", "layout.tp=1")
    with pytest.raises(ConfigError, match="--resume to go on all the same"):
        choose(runs, other)
    start = choose(runs, other, Intent.RESUME)
    assert start.is_resume
    assert "layout.tp 2 -> 1" in start.why


def test_a_resume_never_takes_another_learning_rate(runs):
    with pytest.raises(ConfigError, match=r"optim\.lr"):
        choose(runs, recipe("optim.lr=2e-3"), Intent.RESUME)


def test_a_finished_run_is_left_alone_unless_its_steps_grow(runs):
    finish(runs, "first")
    start = choose(runs, recipe())
    assert (start.is_resume, start.folder.id) == (False, "new")
    assert "bloom_tiny/first is done already" in start.why
    assert choose(runs, recipe("steps=999"), Intent.RESUME).folder.id == "first"


def test_a_finished_run_is_not_called_unfinished(runs):
    finish(runs, "first")
    with pytest.raises(ConfigError, match="run bloom_tiny/first is done and has another recipe"):
        choose(runs, recipe("model.hidden=256"), Intent.RESUME)


def test_fresh_is_always_new(runs):
    assert choose(runs, recipe("optim.lr=2e-3"), Intent.FRESH).folder.id == "new"


def test_a_run_is_resumed_by_name(runs):
    begin(choose(runs, recipe("seed=9"), Intent.FRESH, new_id="second"), recipe("seed=9"), runs / "manifest.json")
    assert choose(runs, recipe(), Intent.RESUME, run_id="first").folder.id == "first"
    with pytest.raises(ConfigError, match=r"there is no run 'third' to resume") as caught:
        choose(runs, recipe(), Intent.RESUME, run_id="third")
    assert caught.value.expected == "one of first, second"


def test_nothing_to_resume_is_said(tmp_path):
    with pytest.raises(ConfigError, match="there is no run to resume"):
        choose(tmp_path, recipe(), Intent.RESUME)


def test_a_run_to_resume_that_is_not_there_is_asked_for_in_full(runs, tmp_path):
    with pytest.raises(ConfigError) as caught:
        choose(runs, recipe(), Intent.RESUME, run_id="gone")
    assert str(caught.value).replace(str(runs), "runs") == (
        "C107 there is no run 'gone' to resume\n"
        "  where     runs/bloom_tiny\n"
        "  expected  one of first\n"
        "  found     gone\n"
        "  next      emberward train bloom_tiny --run-id first"
    )
