"""Text on screens of any width: nothing is cut, nothing is lost, tables turn on their side."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberward.report import curve_text, fit, left_table, shell_lines, table

WORDS = st.lists(st.text("abc./-", min_size=1, max_size=30), min_size=1, max_size=30)


@given(WORDS, st.integers(10, 100), st.integers(0, 6))
def test_a_broken_line_keeps_each_word_whole_and_in_order(words, width, indent):
    lines = fit(" " * indent + " ".join(words), width).split("\n")
    assert " ".join(lines).split() == words
    assert all(len(each) <= width or len(each.split()) == 1 for each in lines)


def test_what_follows_a_broken_line_stands_below_the_text_of_its_label():
    line = "  next        call it on every rank, or on none of them"
    assert fit(line, 45) == "  next        call it on every rank, or on\n              none of them"
    assert fit(line, None) == line
    assert fit("a\n\nb", 40) == "a\n\nb"


def test_a_long_command_can_be_pasted():
    command = "emberward train bloom_tiny 'data.train=my own text.txt' --fresh"
    lines = shell_lines(command, first=4, width=40)
    assert lines == ["emberward train bloom_tiny \\", "  'data.train=my own text.txt' \\", "  --fresh"]
    assert "".join(line.removesuffix("\\") for line in lines).split() == command.split()
    assert shell_lines(command, first=4, width=None) == shell_lines(command, first=4, width=70) == [command]


def test_a_table_turns_on_its_side_before_it_becomes_blocks():
    header, rows = ["pp", "parameters", "layers"], [["0", "421,376", "0-1"]]
    assert table(header, rows, width=40) == ["pp  parameters  layers", " 0     421,376  0-1"]
    assert table(header, rows, width=20) == ["pp                0", "parameters  421,376", "layers          0-1"]
    assert table(header, [*rows, *rows], width=20)[2:6] == [
        "layers      0-1", "", "pp          0", "parameters  421,376",
    ]  # fmt: skip


def test_a_table_of_words_becomes_blocks():
    rows = [["bloom-limbo", "25 s", "a rank dies"]]
    assert left_table(["incident", "about", "what"], rows, width=80)[1] == "bloom-limbo  25 s   a rank dies"
    assert left_table(["incident", "about", "what"], rows, width=20) == [
        "bloom-limbo", "  about: 25 s", "  what: a rank dies",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([8.0, 7, 6, 5, 4, 3, 2, 1], "█▇▆▅▄▃▂▁"),
        ([2.0, 2.0], "▅▅"),
        ([3.0, None, 1.0], "█ ▁"),
        ([math.nan, math.inf], ""),
        ([], ""),
    ],
)
def test_a_curve(values, drawn):
    assert curve_text(values) == drawn


def test_a_long_curve_is_drawn_by_means():
    assert curve_text([float(i) for i in range(1000, 0, -1)], width=8) == "█▇▆▅▄▃▂▁"
