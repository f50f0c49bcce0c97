"""What a person is told of work that takes longer than two seconds: how far it is, how fast, and what is left."""

import pytest

from emberward.cli._console import ProgressLines, Screen, Told, Waiting
from emberward.sources.dumps import explain_paths


def test_bytes_say_share_speed_and_time_left_and_not_too_often():
    now, said = [0.0], []
    told = Told("reshape", said.append, clock=lambda: now[0])
    for second in range(6):
        now[0] = float(second)
        told(int(50e6) + second * int(10e6), int(150e6))
    assert said == [
        "reshape: 47%, 70 of 150 MB, 10 MB/s, 8 s left",
        "reshape: 60%, 90 of 150 MB, 10 MB/s, 6 s left",
    ]


def test_a_share_says_the_time_left_of_its_own_work(capsys):
    now = [0.0]
    lines = ProgressLines(Screen(is_json=False), clock=lambda: now[0])
    for second, label, share in ((0, "reading a", 0.0), (3, "reading a", 0.25), (4, "tokenising a", 0.0),
                                 (6, "tokenising a", 0.1)):  # fmt: skip
        now[0] = float(second)
        lines(label, share)
    assert capsys.readouterr().out.splitlines() == ["reading a: 25%, 9 s left", "tokenising a: 10%, 18 s left"]


def test_a_wait_counts_its_parts_and_is_silent_while_it_is_short(capsys):
    waiting = Waiting(Screen(is_json=False), "proving the recipe", limit_s=600, parts="roles ran dry")
    for passed_s, done in ((1.0, 0), (1.9, 0), (2.5, 0), (3.0, 1), (6.0, 2)):
        waiting(passed_s, done, 8)
    assert capsys.readouterr().err.splitlines() == [
        "proving the recipe: 2 s, 0 of 8 roles ran dry, at most 600 s",
        "proving the recipe: 6 s, 2 of 8 roles ran dry, about 18 s left, at most 600 s",
    ]


@pytest.mark.parametrize("count", [1, 3])
def test_explain_tells_the_bytes_of_each_file_that_it_read(tmp_path, count):
    for number in range(count):
        (tmp_path / f"rank{number}.log").write_text("step 1 loss 2.0\n" * 10)
    told = []
    explain_paths([tmp_path], told=lambda *values: told.append(values))
    size = 16 * 10
    assert told == [(size * (number + 1), size * count) for number in range(count)]
