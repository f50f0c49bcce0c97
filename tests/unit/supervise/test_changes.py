"""What a new attempt says had changed since the last good one: values by their names where they can still be read."""

from emberward.report import RunFolder, append_line, read_lines
from emberward.supervise._diary import changes, open_attempt
from emberward.supervise._late_lines import LateLines


def begin(path, text, *, config, outcome=None):
    folder = RunFolder(path=path)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.config.write_text(text)
    number = open_attempt(folder, LateLines(), why="a test", num_ranks=2, config=config)
    if outcome is not None:
        append_line(folder.attempts, {"event": "end", "attempt": number, "outcome": outcome})
    starts = [line for line in read_lines(folder.attempts) if line["event"] == "start"]
    return starts[-1]["changed"]


def test_values_of_the_run_beside_are_named(tmp_path):
    assert begin(tmp_path / "a", "steps: 60\noptim:\n  lr: 0.1\n", config="1" * 64, outcome="done") == []
    assert begin(tmp_path / "b", "steps: 2000\noptim:\n  lr: 0.1\n", config="2" * 64) == ["steps 60 -> 2000"]
    assert begin(tmp_path / "c", "steps: 60\noptim:\n  lr: 0.1\n", config="1" * 64) == []


def test_within_a_run_whose_old_values_are_gone_the_digests_are_short(tmp_path):
    begin(tmp_path / "a", "steps: 60\n", config="1" * 64, outcome="stopped")
    assert begin(tmp_path / "a", "steps: 90\n", config="2" * 64) == ["the configuration, 11111111 -> 22222222"]


def test_many_values_are_counted():
    values = [(f"key{number}", "1", "2") for number in range(9)]
    lines = changes({"config": "1"}, {"config": "2"}, values=values)
    assert lines[0] == "key0 1 -> 2" and lines[-1] == "and 3 more values" and len(lines) == 7
