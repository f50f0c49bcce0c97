"""What README shows is what the program says of the script that README shows."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.cli.door import emberward

from emberward.processes import ProcessTree

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of README in a language; plain output in none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [text for kind, text in found if kind == language]


def untimed(text: str) -> str:
    return re.sub(r"; [0-9.]+ s\)", "; N s)", text)


def test_check_says_of_the_script_what_readme_shows(tmp_path):
    (script,) = blocks("python")
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    said = emberward("check", "--nproc", "2", "--", "train.py", cwd=tmp_path)
    assert said.code == 1
    shown = next(block for block in blocks("") if "[proved]" in block)
    assert untimed(said.out).startswith(untimed(shown)), said.out


TORCHRUN = ("torchrun", "--nproc-per-node", "2", "--standalone", "train.py")


def unpinned(text: str) -> str:
    """The output without what differs from day to day: the process, and torch's own lines."""
    text = re.sub(r"^process \d+:", "process N:", text)
    return re.sub(r"(torch/\S+\.py):\d+", r"\1:N", text)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (script,) = blocks("python")
    folder = tmp_path_factory.mktemp("readme")
    (folder / "train.py").write_text(script, encoding="utf-8")
    return folder


def test_run_says_of_the_script_what_readme_shows(place: Path) -> None:
    said = emberward("run", "--act-after", "1", "--", *TORCHRUN, cwd=place)
    assert said.code != 0
    shown = next(block for block in blocks("") if "[observed]" in block)
    assert shown in said.err, said.err
    assert said.err.count(shown.splitlines()[0]) == 1, "not as a notice first"


def test_explain_says_of_the_hanging_script_what_readme_shows(place: Path, wait_until: Callable[..., None]) -> None:
    with ProcessTree() as tree:
        launcher = str(Path(sys.executable).with_name(TORCHRUN[0]))
        job = tree.start((launcher, *TORCHRUN[1:]), environment={**os.environ, "OMP_NUM_THREADS": "1"}, folder=place)
        pid = str(job.pid)
        wait_until(lambda: emberward("explain", pid, cwd=place).code == 1, "the script to hang", 240.0)
        said = emberward("explain", pid, cwd=place)
    shown = next(block for block in blocks("") if block.startswith("process "))
    assert unpinned(said.out) == unpinned(shown)
