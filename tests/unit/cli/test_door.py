"""The program as a person's shell sees it: exit codes, what goes where, what is refused before anything starts."""

import json
import os

import psutil
import pytest
from unit.cli.door import counting_children, emberward, without_torch

from emberward import __version__
from emberward.cli._examine import _steps_text
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.recipe import load_recipe, resolve, write_resolved
from emberward.report import RunFolder, append_line, write_json
from emberward.sources.script import RankEnd

VERBS = ("train", "check", "explain", "report", "watch", "checkpoint")


def make_folder(path) -> RunFolder:
    """A run's folder after one attempt that ended well."""
    path.mkdir(parents=True)
    folder = RunFolder(path=path)
    write_resolved(resolve(load_recipe("bloom_tiny", []), num_ranks=8, tokenizer_size=257), folder.config)
    for step in (1, 2):
        append_line(folder.metrics, {"step": step, "loss": 6.0 - step, "tokens_per_s": 10.0, "step_s": 0.5})
    append_line(folder.attempts, {"event": "start", "attempt": 1})
    append_line(folder.attempts, {"event": "end", "attempt": 1, "outcome": "done", "hours": 0.1})
    write_json(folder.summary, {"outcome": "done", "step": 2, "steps": 2})
    return folder


DEATH = Finding(
    code="L102",
    severity=Severity.ERROR,
    kind=Kind.CRASH,
    cause=Cause.KILLED,
    certainty=Certainty.OBSERVED,
    message="rank 1 died first: killed by SIGKILL",
    next="start again",
)


def test_help_lists_the_verbs_and_needs_no_torch(tmp_path):
    said = emberward("--help", cwd=tmp_path, **without_torch(tmp_path / "blocked"))
    assert said.code == 0
    for verb in VERBS:
        assert f" {verb} " in said.out


def test_the_block_blocks(tmp_path):
    said = emberward("import torch", cwd=tmp_path, program="-c", **without_torch(tmp_path / "blocked"))
    assert said.code == 1
    assert "torch is blocked by the test" in said.err


def test_version(tmp_path):
    said = emberward("--version", cwd=tmp_path)
    assert (said.code, said.out) == (0, f"emberward {__version__}\n")


def test_an_unknown_key_is_refused_before_any_process_is_started(tmp_path):
    environment, children = counting_children(tmp_path / "hook")
    said = emberward("train", "bloom_tiny", "optim.lrr=1e-3", cwd=tmp_path, **environment)
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("C101 unknown key optim.lrr\n")
    assert "did you mean" in said.err
    assert "optim.lr" in said.err
    assert not children.exists()
    assert os.listdir(tmp_path) == ["hook"]  # noqa: PTH208


def test_the_hook_sees_processes(tmp_path):
    environment, children = counting_children(tmp_path / "hook")
    emberward("import subprocess; subprocess.run(['true'])", cwd=tmp_path, program="-c", **environment)
    assert children.read_text().splitlines()[0] == "subprocess.Popen"


@pytest.mark.parametrize(
    ("arguments", "code", "finding"),
    [
        (("train", "bloom_tiny", "--layout.tp", "3"), 2, "C104"),
        (("train", "bloom_tiny", "--ranks", "7", "layout.tp=2"), 2, "C104"),
        (("train", "bloom_tiny", "--hardware", "b301"), 2, "C103"),
        (("check", "bloom_tiny", "--hardware", "b301"), 2, "C103"),
        (("train", "bloom_tiny", "--resume"), 2, "C107"),
        (("train", "bloom_tiny", "log.wandb=project"), 2, "C110"),
        (("train", "bloom_tiny", "data.train=no/such/file"), 2, "D101"),
        (("report", "nowhere"), 2, "C107"),
        (("watch", "nowhere"), 2, "C107"),
        (("checkpoint", "verify", "nowhere"), 2, "K102"),
        (("checkpoint", "export", "nowhere", "out"), 2, "K102"),
        (("train",), 2, "C113"),
        (("report", "a", "b"), 2, "C113"),
        (("checkpoint", "show"), 2, "C113"),
        (("frobnicate",), 2, "C113"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_refused_is_one_document_on_stdout_and_text_on_stderr(tmp_path, arguments, code, finding):
    said = emberward(*arguments, "--json", cwd=tmp_path)
    assert said.code == code, said.err
    assert said.document["schema"] == 1
    assert [each["code"] for each in said.document["findings"]] == [finding]
    assert said.document["findings"][0]["message"] in said.err
    assert not (tmp_path / "runs").exists()


def test_a_command_that_is_not_understood_is_a_finding_with_a_way_out(tmp_path):
    said = emberward("report", "--json", cwd=tmp_path)
    (finding,) = said.document["findings"]
    assert (said.code, finding["code"], finding["message"].lower()) == (2, "C113", "missing argument 'run'.")
    assert finding["next"] == "--help lists what there is"


def test_our_own_bug_is_said_and_kept_and_has_its_code(tmp_path):
    """The planted bug is a fault in our code, raised where a verb runs."""
    plant = (
        "import sys, emberward.cli as door, emberward.cli._window_app as verbs\n"
        "def broken(word, runs, verb): raise ZeroDivisionError('planted')\n"
        "verbs.require_run = broken\n"
        "sys.argv = ['emberward', 'report', 'x', *sys.argv[1:]]\n"
        "door.main()"
    )
    said = emberward(plant, cwd=tmp_path, program="-c")
    assert (said.code, said.out) == (3, "")
    assert said.err.startswith("this is a bug of Emberward: ZeroDivisionError: planted\n")
    (kept,) = tmp_path.glob("emberward-bug-*.txt")
    assert kept.read_text().endswith("in broken\nZeroDivisionError: planted\n")
    said = emberward(plant, "--json", cwd=tmp_path, program="-c")
    assert (said.code, said.document["bug"]) == (3, "ZeroDivisionError: planted")


def test_a_place_that_cannot_be_written_is_not_our_bug(tmp_path):
    (tmp_path / "runs").write_text("a file in the way")
    (tmp_path / "text.txt").write_text("some text to learn from\n" * 400)
    arguments = ("train", "bloom_tiny", "data.train=text.txt", "data.held_out=0.2", "--no-check", "--json")
    said = emberward(*arguments, cwd=tmp_path)
    assert said.code == 2
    assert [each["code"] for each in said.document["findings"]] == ["C112"]
    assert list(tmp_path.glob("emberward-bug*")) == []


@pytest.mark.parametrize(("ranks", "layout"), [("2", "dp=2 layout.tp=1 layout.pp=1"), ("1", "dp=1 layout.tp=1")])
def test_fewer_ranks_adapt_the_presets_layout_and_say_so(tmp_path, ranks, layout):
    (tmp_path / "text.txt").write_text("some text to learn from\n" * 400)
    environment, children = counting_children(tmp_path / "hook")
    options = ("data.train=text.txt", "data.held_out=0.2", "--ranks", ranks, "--dry", "--no-check")
    said = emberward("train", "bloom_tiny", *options, cwd=tmp_path, **environment)
    assert said.code == 0, said.err
    assert f"instead of the recipe's 8: layout.{layout}" in said.out
    assert "memory a rank, first rank of each pipeline rank" in said.out
    assert "nothing was started; a start now: new run bloom_tiny/" in said.out
    assert sum(line.endswith("  this machine") for line in said.out.splitlines()) == int(ranks)
    assert not (tmp_path / "runs").exists()
    assert not children.exists()


def test_a_dry_run_gives_one_document(tmp_path):
    (tmp_path / "text.txt").write_text("some text to learn from\n" * 400)
    options = ("data.train=text.txt", "data.held_out=0.2", "--ranks=2", "--dry", "--no-check", "--json")
    said = emberward("train", "bloom_tiny", *options, cwd=tmp_path, **without_torch(tmp_path / "blocked"))
    assert said.code == 0, said.err
    assert said.document["num_ranks"] == 2
    assert said.document["preflight"]["num_parameters"] == 842_752
    assert said.document["start"].startswith("new run bloom_tiny/")
    assert "this machine" in said.err


def test_report_reads_a_run_or_the_newest_below_a_folder(tmp_path):
    folder = make_folder(tmp_path / "runs" / "bloom_tiny" / "7")
    environment = without_torch(tmp_path / "blocked")
    said = emberward("report", str(folder.path), cwd=tmp_path, **environment)
    assert said.code == 0
    assert said.out.startswith("bloom_tiny 7: done at step 2 of 2\n")
    document = emberward("report", "runs", "--json", cwd=tmp_path, **environment).document
    assert (document["id"], document["outcome"], document["loss_last"]) == ("7", "done", 4.0)
    append_line(folder.findings, DEATH.to_json())
    said = emberward("report", "runs", cwd=tmp_path)
    assert said.code == 1
    assert "  error       L102 rank 1 died first: killed by SIGKILL\n" in said.out


def test_watch_ends_with_the_run(tmp_path):
    folder = make_folder(tmp_path / "runs" / "bloom_tiny" / "7")
    said = emberward("watch", str(folder.path), cwd=tmp_path, **without_torch(tmp_path / "blocked"))
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == "step 2  loss 4.0000  10 tok/s  0.50 s/step  ran 6 min"
    assert lines[1] == "bloom_tiny 7: done at step 2 of 2"
    assert "\x1b" not in said.out
    said = emberward("watch", str(folder.path), "--json", cwd=tmp_path)
    first, last = map(json.loads, said.out.splitlines())
    assert (first["schema"], first["progress"]["step"], first["progress"]["loss"]) == (1, 2, 4.0)
    assert (last["schema"], last["outcome"]) == (1, "done")


def test_watch_ends_when_the_launcher_is_gone_and_waits_while_it_lives(tmp_path):
    folder = make_folder(tmp_path / "runs" / "bloom_tiny" / "7")
    append_line(folder.attempts, {"event": "start", "attempt": 2})
    folder.summary.unlink()
    me = psutil.Process()
    process = {"pid": me.pid, "created": me.create_time()}
    dead = {"pid": me.pid, "created": me.create_time() - 100.0}
    write_json(folder.lock, {"host": os.uname().nodename, "launcher": dead, "agent": dead})
    said = emberward("watch", str(folder.path), cwd=tmp_path)
    assert said.code == 0
    assert "bloom_tiny 7: launcher died at step 2" in said.out
    from emberward.supervise import is_abandoned

    assert is_abandoned(folder)
    write_json(folder.lock, {"host": os.uname().nodename, "launcher": dead, "agent": process})
    assert not is_abandoned(folder)
    write_json(folder.lock, {"host": os.uname().nodename, "launcher": process, "agent": None})
    assert not is_abandoned(folder)
    write_json(folder.lock, {"host": "another", "launcher": dead, "agent": dead})
    assert not is_abandoned(folder)
    folder.lock.write_text("")
    assert not is_abandoned(folder)


def test_checkpoint_ls_of_a_run_without_saves(tmp_path):
    folder = make_folder(tmp_path / "runs" / "bloom_tiny" / "7")
    said = emberward("checkpoint", "ls", str(folder.path), "--json", cwd=tmp_path, **without_torch(tmp_path / "b"))
    assert (said.code, said.document) == (0, {"schema": 1, "findings": [], "saves": []})


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((0, 0), "it makes no optimizer step"),
        ((1, 1), "1 optimizer step on each rank"),
        ((12, 12), "12 optimizer steps on each rank"),
        ((3, 4), "optimizer steps rank 0: 3, rank 1: 4"),
    ],
)
def test_how_far_a_script_was_examined_is_said_in_steps(steps, said):
    ends = [RankEnd(rank=rank, status="done", num_steps=count) for rank, count in enumerate(steps)]
    assert _steps_text(ends) == said
