"""How many ranks are written in one line, and what a file is by its first bytes."""

import pytest

from emberward.findings import ranks_text
from emberward.sources.dumps._gather import _kinds_below


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "rank 3"),
        ([0, 1], "ranks 0, 1"),
        ([0, 1, 2, 3, 7], "ranks 0-3, 7"),
        (range(0, 24, 2), "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22"),
        (range(0, 30, 2), "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 and 3 more spans"),
    ],
    ids=str,
)
def test_many_ranks_are_spans_and_the_rest_is_counted(ranks, text):
    assert ranks_text(ranks) == text


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ("[{", "stacks"),
        ("  [", "stacks"),
        ('{"entries"', "dump"),
        ("step 3", "text"),
        ("Traceback", "text"),
        ("|", "text"),
    ],
)
def test_what_a_file_of_a_rank_is_by_its_first_bytes(tmp_path, first, kind):
    path = tmp_path / "rank3.txt"
    path.write_text(f"{first} of a rank")
    assert {each for _, each in _kinds_below([path])} == {kind}
