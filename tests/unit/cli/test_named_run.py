"""Every verb that takes a run takes its name, its folder, a folder of runs, or a checkpoint inside it."""

import json
import os
import re
from pathlib import Path

import pytest
import torch
from canned_runs import HANG
from typer.testing import CliRunner
from unit.checkpoint.checkpoint_ranks import cut, random_bits, require_saved, save_all

from emberward.cli import app_of
from emberward.cli._named_run import find_run
from emberward.recipe import load_recipe, resolve, write_resolved
from emberward.report import RunFolder, append_line, write_json
from emberward.sources.ring import RingWriter, identity_here, ring_name

OLD, NEW = "20260101-000000-aaaa", "20260102-000000-bbbb"


def make_run(path: Path, *, at_unix: float, steps=(10, 20)) -> RunFolder:
    """A run that is done, with saves, begun at a time."""
    folder = RunFolder(path=path)
    folder.checkpoints.mkdir(parents=True)
    write_resolved(resolve(load_recipe("bloom_tiny", []), num_ranks=8, tokenizer_size=257), folder.config)
    os.utime(folder.config, (at_unix, at_unix))
    append_line(folder.metrics, {"step": 20, "loss": 2.0, "step_s": 0.5})
    append_line(folder.attempts, {"event": "start", "attempt": 1})
    append_line(folder.attempts, {"event": "end", "attempt": 1, "outcome": "done", "hours": 0.1})
    write_json(folder.summary, {"outcome": "done", "step": 20, "steps": 20})
    for step in steps:
        whole = random_bits(torch.float32, (8, 16), step)
        require_saved(save_all(folder.checkpoints, [[cut("model/w", whole, ((0, 8), (0, 16)))]], step=step))
    return folder


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with two runs of one name under ``runs``, the second begun later."""
    folder = tmp_path_factory.mktemp("here")
    make_run(folder / "runs" / "demo" / OLD, at_unix=1_000.0)
    make_run(folder / "runs" / "demo" / NEW, at_unix=2_000.0)
    return folder


@pytest.fixture
def inside(here, monkeypatch):
    monkeypatch.chdir(here)
    return here


WORDS = {
    "demo": NEW,
    f"demo/{OLD}": OLD,
    OLD: OLD,
    "runs": NEW,
    "runs/demo": NEW,
    f"runs/demo/{OLD}": OLD,
    f"runs/demo/{OLD}/checkpoints": OLD,
    f"runs/demo/{OLD}/checkpoints/step-00000010": OLD,
}


@pytest.mark.parametrize(("word", "found"), WORDS.items())
def test_a_word_names_a_run(inside, word, found):
    run = find_run(Path(word), Path("runs"))
    assert run is not None
    assert run.name == found
    assert find_run(Path("runs") / word / "nothing", Path("runs")) is None


def test_the_folder_of_runs_may_be_another(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_run(Path("demo"), Path("runs")) is None
    assert find_run(Path("demo"), here / "runs") == here / "runs" / "demo" / NEW


def test_what_exists_comes_before_a_name_and_another_folder_of_that_name_does_not_hide_it(inside):
    (inside / "demo").mkdir(exist_ok=True)
    assert find_run(Path("demo"), Path("runs")).name == NEW
    make_run(inside / "demo" / "x", at_unix=1.0, steps=())
    assert find_run(Path("demo"), Path("runs")).name == "x"
    for path in sorted((inside / "demo").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (inside / "demo").rmdir()


def called(*words: str):
    return CliRunner().invoke(app_of(words[0]), [*words, "--json"])


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("verb", ["report", "watch"])
def test_report_and_watch_take_every_name(inside, verb, word):
    said = called(verb, word)
    assert said.exit_code == 0, said.stderr
    assert json.loads(said.stdout.splitlines()[-1])["id"] == WORDS[word]


@pytest.mark.parametrize("word", WORDS)
def test_checkpoint_verbs_take_every_name(inside, tmp_path, word):
    run, is_one = inside / "runs" / "demo" / WORDS[word], word.endswith("10")
    save = run / "checkpoints" / ("step-00000010" if is_one else "step-00000020")
    saves = json.loads(called("checkpoint", "ls", word).stdout)["saves"]
    assert [Path(each["path"]).resolve().parents[1] for each in saves] == [run, run]
    assert json.loads(called("checkpoint", "show", word).stdout)["step"] == (10 if is_one else 20)
    assert Path(json.loads(called("checkpoint", "verify", word).stdout)["save"]).resolve() == save
    assert called("checkpoint", "reshape", word, str(tmp_path / "copy"), "--ranks", "2").exit_code == 0
    assert called("checkpoint", "diff", word, str(tmp_path / "copy")).exit_code == 0
    assert called("checkpoint", "import", word, str(tmp_path / "imported")).exit_code == 0
    made = called("checkpoint", "export", word, str(tmp_path / "out"), "--form", "dcp")
    assert made.exit_code == 0, made.stderr
    assert (tmp_path / "out" / ".metadata").exists()


@pytest.mark.parametrize("word", ["demo", "runs/demo", f"runs/demo/{NEW}"])
def test_explain_and_check_take_a_run(inside, word):
    said = called("explain", word)
    assert said.exit_code == 0, said.stderr
    assert json.loads(said.stdout)["incidents"][0]["label"].endswith(NEW)
    said = called("check", word)  # its events are asked for, which this run has none of
    assert said.exit_code == 2
    assert json.loads(said.stdout)["findings"][0]["message"] == "no trace here"


@pytest.mark.parametrize("outcome", ["failed", "killed", "done"])
def test_check_of_a_run_that_failed_says_what_explain_says_and_is_an_error(tmp_path, outcome):
    folder = make_run(tmp_path / "runs" / "late" / NEW, at_unix=1_000.0, steps=())
    append_line(folder.findings, {**HANG.to_json(), "attempt": 1, "seen": "2026-01-02T00:00:00+00:00"})
    append_line(folder.attempts, {"event": "start", "attempt": 2})
    append_line(folder.attempts, {"event": "end", "attempt": 2, "outcome": outcome, "hours": 0.1})
    append_line(folder.findings, {**HANG.to_json(), "attempt": 2, "seen": "2026-01-02T00:00:00+00:00"})
    (folder.path / "events").mkdir()
    write_rings(folder.path / "events" / "attempt-0002")
    word = str(folder.path)
    said, explained = called("check", word), called("explain", word)
    first = json.loads(explained.stdout)["findings"][0]
    assert (first["code"], first["culprit_ranks"], explained.exit_code) == ("H101", [5], 1)
    assert (json.loads(said.stdout)["findings"][0], said.exit_code) == (first, 1)
    assert json.loads(said.stdout)["proved"] is False
    assert "emberward report RUN" in said.stderr


def write_rings(folder: Path) -> None:
    """Rings of two ranks in which no call is open."""
    folder.mkdir()
    for rank in range(2):
        path = folder / ring_name(rank=rank, pid=os.getpid() + rank)
        RingWriter(path, identity_here(rank=rank, world_size=2, local_rank=rank)).close()


def test_a_preset_comes_before_a_run_of_its_name(inside):
    make_run(inside / "runs" / "bloom_tiny" / "x", at_unix=1.0, steps=())
    said = called("check", "bloom_tiny", "model.hiden=3")
    assert json.loads(said.stdout)["findings"][0]["message"] == "unknown key model.hiden"


@pytest.mark.parametrize(
    ("words", "code", "next"),
    [
        (("report", "demmo"), "C107", "emberward report runs/demo"),
        (("watch", "demmo"), "C107", "emberward watch runs/demo"),
        (("checkpoint", "ls", "demmo"), "K102", "emberward checkpoint ls runs/demo"),
        (("checkpoint", "verify", "demmo"), "K102", "emberward checkpoint ls runs/demo"),
        (("report", "demmo", "--runs", "elsewhere"), "C107", "emberward train bloom_tiny      (makes a run)"),
    ],
)
def test_what_is_no_run_is_refused_with_a_whole_command_for_the_nearest(inside, words, code, next):
    said = called(*words)
    assert said.exit_code == 2
    (finding,) = json.loads(said.stdout)["findings"]
    assert (finding["code"], finding["next"]) == (code, next)


def test_a_run_without_a_save_is_told_from_no_run(inside):
    make_run(inside / "runs" / "empty" / "x", at_unix=3.0, steps=())
    said = called("checkpoint", "show", "empty")
    assert re.search(r"found +run runs/empty/x without a save", said.stderr)
    assert called("checkpoint", "ls", "empty").exit_code == 0
