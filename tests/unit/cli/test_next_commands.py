"""The commands that a summary proposes can be typed as they stand."""

from pathlib import Path

from emberward.cli._main import program_name
from emberward.cli._train import TrainOptions, next_commands
from emberward.report import RunFolder
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
    assert next_commands(asked, folder, is_done=False) == [
        ".venv/bin/emberward train bloom_tiny 'data.train=my text.txt' --ranks 2 --runs elsewhere   (resumes)",
        ".venv/bin/emberward report elsewhere/bloom_tiny/1",
    ]


def test_a_done_run_is_looked_at_or_begun_anew():
    assert next_commands(options(), RunFolder(path=Path("runs/a/1")), is_done=True) == [
        "emberward report runs/a/1",
        "emberward checkpoint ls runs/a/1",
        "emberward train bloom_tiny 'data.train=my text.txt' --fresh",
    ]


def test_the_program_is_named_as_it_can_be_called(tmp_path):
    ours = tmp_path / ".venv" / "bin" / "emberward"
    assert program_name(ours, on_path=None, here=tmp_path) == ".venv/bin/emberward"
    assert program_name(ours, on_path=str(ours), here=tmp_path) == "emberward"
    assert program_name(ours, on_path=str(tmp_path / "other"), here=tmp_path / "sub") == str(ours)
    assert program_name(Path("pytest"), on_path=None, here=tmp_path) == "emberward"
