"""What a new attempt says had changed since the last good one: values by their names where they can still be read."""

from emberward.report import RunFolder, append_line, read_lines
from emberward.supervise._diary import changes, differences, open_attempt
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


def test_two_runs_say_what_differs_between_their_last_starts(tmp_path):
    for name, text, config in (("a", "steps: 60\n", "1" * 64), ("b", "steps: 90\n", "2" * 64)):
        begin(tmp_path / name, text, config=config, outcome="done")
    first, second, none = (RunFolder(path=tmp_path / name) for name in "abc")
    assert differences(first, second) == ["steps 60 -> 90"]
    assert differences(first, first) == differences(first, none) == []


def test_within_a_run_whose_old_values_are_gone_the_digests_are_short(tmp_path):
    begin(tmp_path / "a", "steps: 60\n", config="1" * 64, outcome="stopped")
    assert begin(tmp_path / "a", "steps: 90\n", config="2" * 64) == ["the configuration, 11111111 -> 22222222"]


def test_many_values_are_counted():
    values = [(f"key{number}", "1", "2") for number in range(9)]
    lines = changes({"config": "1"}, {"config": "2"}, values=values)
    assert lines[0] == "key0 1 -> 2" and lines[-1] == "and 3 more values" and len(lines) == 7


def resolved(steps, samples, origin="worked out from steps"):
    return f'steps: {steps}\ntrain_samples: {samples}\nresolved:\n  origins:\n    train_samples: "{origin} {steps}"\n'


def test_what_follows_from_another_value_is_not_told_beside_it(tmp_path):
    begin(tmp_path / "a", resolved(60, 600), config="1" * 64, outcome="done")
    assert begin(tmp_path / "b", resolved(90, 900), config="2" * 64) == ["steps 60 -> 90"]
    given = resolved(60, 900, origin="command line")
    assert begin(tmp_path / "c", given, config="3" * 64) == ["train_samples 600 -> 900"], "somebody gave it"
    assert begin(tmp_path / "d", resolved(60, 500), config="4" * 64) == ["train_samples 600 -> 500"], "the rule changed"


def test_commits_are_short_and_a_reboot_is_said_in_words():
    old = {"commit": "a" * 40, "machine": {"host": "n1", "boot": "1-2-3", "kernel": "6.1"}}
    new = {"commit": "b" * 40 + "+", "machine": {"host": "n1", "boot": "4-5-6", "kernel": "6.1"}}
    assert changes(old, new) == ["commit aaaaaaaaaa -> bbbbbbbbbb+", "the machine was started anew"]
    elsewhere = {**old, "machine": {"host": "n2", "boot": "4-5-6", "kernel": "6.1"}, "host": "n2"}
    assert changes({**old, "host": "n1"}, elsewhere) == ["host n1 -> n2"], "another machine has another boot"
