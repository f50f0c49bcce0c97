"""The commands that a summary proposes can be typed as they stand, and so can those of README."""

import sys
from pathlib import Path

from emberward.cli._called import program_name
from emberward.cli._console import Screen
from emberward.cli._run import program_beside
from emberward.cli._train import TrainOptions, next_commands
from emberward.report import RunFolder, write_json
from emberward.runs import Intent


def options(**changed):
    given = {
        "recipe": "bloom_tiny", "overrides": ("data.train=my text.txt",), "num_ranks": None, "runs": Path("runs"),
        "intent": Intent.AUTO, "run_id": None, "is_dry": False, "is_checked": True, "grace_s": 1.0, "max_restarts": 0,
            "environment": {},
    }  # fmt: skip
    return TrainOptions(**{**given, **changed})


def test_a_stopped_run_is_resumed_by_what_was_typed():
    folder = RunFolder(path=Path("elsewhere/bloom_tiny/1"))
    asked = options(num_ranks=2, runs=Path("elsewhere"), program=".venv/bin/emberward")
    assert [each.command for each in next_commands(asked, folder, is_done=False)] == [
        ".venv/bin/emberward train bloom_tiny 'data.train=my text.txt' --ranks 2 --runs elsewhere",
        ".venv/bin/emberward ui elsewhere/bloom_tiny/1",
        ".venv/bin/emberward report elsewhere/bloom_tiny/1 --html ticket.html",
        ".venv/bin/emberward report elsewhere/bloom_tiny/1",
    ]


def test_a_done_run_is_looked_at_or_begun_anew():
    assert [each.command for each in next_commands(options(), RunFolder(path=Path("runs/a/1")), is_done=True)] == [
        'emberward generate runs/a/1 "Once upon"',
        "emberward checkpoint export runs/a/1 hf_model",
        "emberward train bloom_tiny 'data.train=my text.txt' --fresh log.tensorboard=true",
        "emberward ui runs/a/1",
        "emberward report runs/a/1",
    ]


def test_who_has_not_given_a_text_is_shown_how():
    given = next_commands(options(overrides=("steps=9",)), RunFolder(path=Path("runs/a/1")), is_done=True)
    assert "emberward train bloom_tiny data.train=my.txt" in [each.command for each in given]


def test_a_model_is_asked_for_and_trained_on_text_where_that_is_its_own(tmp_path):
    folder = RunFolder(path=tmp_path)
    for kind, writes, reads in (("images", False, False), ("masked tokens", False, True), ("tokens", True, True)):
        write_json(folder.summary, {"samples": kind})
        given = [each.why for each in next_commands(options(overrides=()), folder, is_done=True)]
        assert ("more text from this model" in given, "your own text" in given) == (writes, reads)


def test_the_program_is_named_as_it_can_be_called(tmp_path):
    ours = tmp_path / ".venv" / "bin" / "emberward"
    assert program_name(ours, on_path=None, here=tmp_path) == ".venv/bin/emberward"
    assert program_name(ours, on_path=str(ours), here=tmp_path) == "emberward"
    assert program_name(ours, on_path=str(tmp_path / "other"), here=tmp_path / "sub") == str(ours)
    assert program_name(Path("pytest"), on_path=None, here=tmp_path) == "emberward"


def test_a_launcher_of_our_own_environment_is_found_though_that_is_not_activated():
    ours = Path(sys.executable)
    assert program_beside(ours.name, "/nowhere") == str(ours)
    assert program_beside(ours.name, str(ours.parent)) == ours.name, "the person's own comes first"
    assert program_beside("no-such-program", "/nowhere") == "no-such-program"
    for path in ("./torchrun", str(ours)):
        assert program_beside(path, "/nowhere") == path


def test_what_is_said_has_the_program_as_it_was_called_and_the_document_its_name(capsys):
    screen = Screen(is_json=True, program=".venv/bin/emberward")
    screen.say("  next      emberward report runs/x")
    screen.complain("emberward: more: emberward report runs/x")
    screen.document([], next="emberward report runs/x")
    said = capsys.readouterr()
    assert said.err.splitlines() == ["  next      .venv/bin/emberward report runs/x",
                                     "emberward: more: .venv/bin/emberward report runs/x"]  # fmt: skip
    assert '"next": "emberward report runs/x"' in said.out
