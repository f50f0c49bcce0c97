"""A test that failed beside others and passes alone is told and is no failure; one that fails alone too is one."""

import json

import pytest
import run_tests

PASSES_LATER = """
from pathlib import Path

def test_it():
    seen = Path(__file__).with_name("seen")
    was_there = seen.exists()
    seen.touch()
    assert was_there
"""


@pytest.fixture
def failed(tmp_path, monkeypatch):
    """Says of a test file that its one test failed in the lane of the others."""
    monkeypatch.setattr(run_tests, "CACHE", tmp_path / "cache")

    def say(text: str, *, names: tuple[str, ...] = ("test_it",)) -> dict[str, int]:
        (tmp_path / "test_one.py").write_text(text)
        path = run_tests.failures_of("others")
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({f"{tmp_path / 'test_one.py'}::{name}": True for name in names}))
        return {"ranks": 0, "others": run_tests.FAILED}

    return say


def test_what_passes_alone_is_told(failed, tmp_path, capsys):
    codes = failed(PASSES_LATER)
    (tmp_path / "seen").touch()
    assert run_tests.run_again(codes, ()) == {"ranks": 0, "others": 0}
    assert "FAILED BESIDE OTHERS, PASSED ALONE: " in capsys.readouterr().out


def test_what_passes_only_once_of_twice_stays_a_failure(failed):
    assert run_tests.run_again(failed(PASSES_LATER), ()) == {"ranks": 0, "others": run_tests.FAILED}


def test_more_than_a_few_are_not_run_again(failed):
    codes = failed(PASSES_LATER, names=("test_a", "test_b", "test_c", "test_d"))
    assert run_tests.run_again(codes, ()) == codes
