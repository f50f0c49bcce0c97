"""The set-up script's decisions: which torch, which pins, what is left to install."""

import importlib.util
import sys
from pathlib import Path

import pytest

from house.tree import ROOT


@pytest.fixture(scope="module")
def setup_env():
    spec = importlib.util.spec_from_file_location("setup_env", ROOT / "tools" / "setup_env.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["setup_env"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["setup_env"]


@pytest.mark.parametrize(
    ("version", "is_reused"), [("2.13.0+cpu", True), ("2.11.0", True), ("2.10.9", False), ("1.13.1", False)]
)
def test_a_torch_that_is_new_enough_is_used(setup_env, version, is_reused):
    own = setup_env.FoundTorch(version=version, folder=Path("somewhere"))
    assert (setup_env.torch_to_reuse(own, asked=None) is own) == is_reused
    assert setup_env.torch_to_reuse(own, asked="torch==2.12.0") is None
    assert setup_env.torch_to_reuse(None, asked=None) is None


def test_every_install_is_held_to_the_torch_that_was_chosen(setup_env):
    pins = "# why\ntorch==2.13.0\nruff==1\n"
    assert setup_env.constrained(pins, "2.12.0+cu126") == "torch==2.12.0+cu126\n# why\nruff==1\n"
    assert "torch" not in setup_env.constrained(pins, None)


def test_set_up_is_done_again_when_something_that_decides_it_changed(setup_env):
    stamp = {"digest": "a", "extras": ["train", "test"]}
    assert setup_env.is_fresh(stamp, "a", {"train"})
    assert not setup_env.is_fresh(stamp, "b", {"train"})
    assert not setup_env.is_fresh(stamp, "a", {"train", "check"})
    assert not setup_env.is_fresh(None, "a", set())


def test_a_program_that_only_the_reused_environment_has_is_installed(setup_env, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mypy").touch()
    assert setup_env.missing_programs(tmp_path, {"train", "check"}) == ["ruff", "import-linter"]
    assert setup_env.missing_programs(tmp_path, {"train"}) == []


def test_the_makefile_calls_no_other_program_of_the_environment(setup_env):
    programs = {program for extra in setup_env.PROGRAMS.values() for program in extra} | {"python", "emberward"}
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = {word.split("/")[-1] for word in text.split() if word.lstrip("@").startswith("$(VENV)/bin/")}
    assert called and called <= programs
