"""A test that failed beside others and passes alone is told and is no failure; one that fails alone too is one."""

import json
import signal

import pytest
import run_tests

from house.tree import ROOT

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
    assert run_tests.run_again(codes) == {"ranks": 0, "others": 0}
    assert "FAILED BESIDE OTHERS, PASSED ALONE: " in capsys.readouterr().out


def test_what_passes_only_once_of_twice_stays_a_failure(failed):
    assert run_tests.run_again(failed(PASSES_LATER)) == {"ranks": 0, "others": run_tests.FAILED}


def test_more_than_a_few_are_not_run_again(failed):
    codes = failed(PASSES_LATER, names=tuple(f"test_{i}" for i in range(run_tests.MAX_AGAIN + 1)))
    assert run_tests.run_again(codes) == codes


def test_the_last_lines_name_what_failed_in_each_lane(failed, tmp_path):
    codes = failed(PASSES_LATER) | {"files": run_tests.NO_TESTS, "jobs": 3}
    assert list(run_tests.last_lines(codes)) == [
        "others: pytest ended with 1\n",
        f"FAILED: {tmp_path / 'test_one.py'}::test_it\n",
        "jobs: pytest ended with 3\n",
    ]


STANDS_STILL = """
import signal

def test_it():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGINT])
    signal.pause()
"""


def test_a_lane_that_stands_still_is_shown_and_ended(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run_tests, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(run_tests, "STILL_S", 5.0)
    (tmp_path / "test_one.py").write_text(STANDS_STILL)
    assert run_tests.run_lanes({"one": (str(tmp_path),)}, (), tmp_path) == signal.SIGKILL
    found = capsys.readouterr().out
    assert "one: nothing was heard of it for " in found and "test_it (test_one.py:6)" in found
    assert f"one: pytest ended with -{int(signal.SIGKILL)}" in found


def lanes_of(file: str, lanes: dict[str, tuple[str, ...]]) -> list[str]:
    """The lanes that run a test file, a path below the repository."""

    def is_below(paths) -> bool:
        return any(file == path or file.startswith(f"{path}/") for path in paths)

    left_out = {lane: [word.removeprefix("--ignore=") for word in words] for lane, words in lanes.items()}
    return [
        lane
        for lane, words in lanes.items()
        if is_below(word for word in words if not word.startswith("--"))
        and not is_below(set(left_out[lane]) - set(words))
    ]


@pytest.mark.parametrize("choice", ["--all", *run_tests.OWN_LANES])
def test_every_test_file_is_in_one_lane(choice):
    own = tuple(f"tests/{choice.removeprefix('--')}/" for choice in run_tests.OWN_LANES)
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    here = f"tests/{choice.removeprefix('--')}/" if choice in run_tests.OWN_LANES else "tests/"
    lanes = run_tests.OWN_LANES.get(choice, run_tests.LANES)
    chosen = [file for file in files if file.startswith(here) and (here in own or not file.startswith(own))]
    assert len(chosen) >= 1
    assert {file: found for file in chosen if len(found := lanes_of(file, lanes)) != 1} == {}


def test_the_folder_in_memory_takes_what_a_disk_does_and_goes(monkeypatch, tmp_path):
    with run_tests.folder_in_memory() as folder:
        if folder is not None:
            assert folder.parent == run_tests.SHARED_MEMORY
            (folder / "file").write_text("x")
    assert folder is None or not folder.exists()
    monkeypatch.setattr(run_tests, "SHARED_MEMORY", tmp_path / "none")
    with run_tests.folder_in_memory() as folder:
        assert folder is None
    monkeypatch.setattr(run_tests, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(run_tests, "LEAST_FREE_BYTES", 1 << 60)
    with run_tests.folder_in_memory() as folder:
        assert folder is None
    assert list(tmp_path.iterdir()) == []
