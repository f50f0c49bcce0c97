"""What the options of a rewind mean together, before anything is read."""

import pytest

from emberward.cli._rewind import RewindOptions, require_one_intent, rewind_options
from emberward.findings import ConfigError
from emberward.runs import Rewind


def options(step=None, **given):
    defaults = {
        "skip_samples": None, "lr_scale": None, "for_steps": None, "is_undone": False, "is_fresh": False, "why": None,
    }  # fmt: skip
    return rewind_options(step, **{**defaults, **given})


def test_without_options_there_is_no_rewind():
    assert options() is None
    assert options(is_fresh=True, why="x") is None


def test_a_rewind_and_its_undoing():
    assert options(40, skip_samples=64, why="noise") == RewindOptions(
        wanted=Rewind(step=40, skip_samples=64), why="noise"
    )
    assert options(40, lr_scale=0.5, for_steps=9).wanted == Rewind(step=40, lr_scale=0.5, lr_steps=9)
    assert options(0).wanted == Rewind(step=0)
    assert options(is_undone=True) == RewindOptions(wanted=None, why=None)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"skip_samples": 8},
            "R106 --skip-samples says how to go on after a rewind, and there is none\n  where     command line\n"
            "  expected  --rewind STEP\n  found     --skip-samples\n  next      --rewind STEP --skip-samples 8",
        ),
        (
            {"step": 4, "is_undone": True},
            "R106 --rewind and --undo-rewind contradict each other\n  where     command line\n"
            "  expected  one of them\n  found     --rewind --undo-rewind\n"
            "  next      --undo-rewind first, then --rewind STEP",
        ),
        (
            {"step": 4, "is_fresh": True},
            "R106 --fresh and --rewind contradict each other\n  where     command line\n"
            "  expected  one of them\n  found     --fresh --rewind\n  next      leave --fresh out",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(given, text):
    with pytest.raises(ConfigError) as caught:
        options(**given)
    assert str(caught.value) == text


def test_a_new_run_and_an_old_one_are_not_asked_for_at_once():
    for is_resume, run_id, old in ((True, None, "--resume"), (False, "x", "--run-id x"), (True, "x", "--resume")):
        with pytest.raises(ConfigError) as caught:
            require_one_intent(is_fresh=True, is_resume=is_resume, run_id=run_id)
        assert str(caught.value) == (
            f"C113 --fresh and {old} contradict each other\n  where     command line\n  expected  one of them\n"
            f"  found     --fresh {old}\n"
            f"  next      leave --fresh out to go on with a run, or leave {old} out to start a new one"
        )
    require_one_intent(is_fresh=True, is_resume=False, run_id=None)
    require_one_intent(is_fresh=False, is_resume=True, run_id="x")


def test_a_factor_of_0_is_not_taken_for_none_given():
    assert options(40, lr_scale=0.0, for_steps=9).wanted == Rewind(step=40, lr_scale=0.0, lr_steps=9)
