"""What is expected next, by earlier rounds and by peers: every rule about an order asks here."""

from types import SimpleNamespace

import pytest

from emberward.diagnose._frames import Frame
from emberward.diagnose._order import (
    MIN_ROUNDS,
    DataSeen,
    Newest,
    Standing,
    came_early,
    continues,
    has_followed,
    is_out_of_data,
    lacked,
    newest,
    only_in,
    rounds,
    shift,
    standing,
)
from emberward.diagnose._usual import is_other_size


def counts(text: str, *, is_open: bool) -> list[int]:
    """How many ``x`` lie between two ``|``."""
    return rounds(text, is_mark=lambda call: call == "|", is_counted=lambda call: call == "x", is_open=is_open)


@pytest.mark.parametrize(
    ("text", "closed", "opened"),
    [("", [], []), ("xx", [], []), ("x|", [], [0]), ("x|xyx|x|", [2, 1], [2, 1, 0]), ("|x|xx", [1], [1, 2])],
)
def test_a_round_lies_between_two_marks_and_the_open_one_behind_the_last(text, closed, opened):
    assert counts(text, is_open=False) == closed
    assert counts(text, is_open=True) == opened


@pytest.mark.parametrize(
    ("now", "how"), [(2, Newest.USUAL), (1, Newest.FEWER), (5, Newest.MORE), (3, Newest.OTHER), (4, Newest.USUAL)]
)
def test_the_newest_round_is_compared_with_all_earlier_ones(now, how):
    assert newest([2, 4, 2, now]) is how


def test_a_past_too_short_tells_nothing():
    assert newest([]) is None
    assert newest([2] * MIN_ROUNDS) is None
    assert newest([2] * MIN_ROUNDS + [1]) is Newest.FEWER
    assert newest([2, 1], least=1) is Newest.FEWER


def test_what_came_next_before_is_known_by_pairs():
    assert has_followed("abcab", "b", "c", are_alike=str.__eq__)
    assert not has_followed("abcab", "a", "c", are_alike=str.__eq__)


@pytest.mark.parametrize(
    ("tags", "is_usual"),
    [((7, 7, 7, 7), None), ((7, 7, 7, 7, 7), True), ((1, 2, 3, 4, 5), True), ((1, 2, 3, 4, 9), False)],
)
def test_a_tag_continues_when_it_repeats_or_counts_on(tags, is_usual):
    assert continues(tags) is is_usual


def numbered(text: str) -> dict[int, str]:
    """Calls by their number."""
    return dict(enumerate(text))


@pytest.mark.parametrize(
    ("odd", "found"),
    [
        ("abcdefghij", None),
        ("abcefghij", (3, 1)),
        ("abcefghij"[:6], None),
        ("abcXdefghi", (3, -1)),
        ("abcXefghij", None),
    ],
)
def test_orders_that_part_are_alike_again_some_places_on_or_it_was_another_call(odd, found):
    assert shift(numbered(odd), numbered("abcdefghij")) == found


@pytest.mark.parametrize(
    ("past", "ours", "theirs", "stands"),
    [("abcabc", "b", "a", Standing.AHEAD), ("abcabc", "x", "a", Standing.NEW), ("abcabc", "c", "a", Standing.KNOWN)],
)
def test_a_call_that_meets_another_is_ahead_new_or_known(past, ours, theirs, stands):
    assert standing(ours, theirs, past, past, are_alike=str.__eq__) is stands


@pytest.mark.parametrize(
    ("past", "ours", "theirs", "is_early"),
    [
        ("ggggsggggsggg", "s", "g", True),
        ("ggggsggggsgggg", "s", "g", False),
        ("ggsggggsggg", "s", "g", False),  # what came before the first one may be cut off
        ("gggsgg", "s", "g", True),
        ("tttvvvtttvv", "t", "v", True),  # of a row of calls that are alike the first one ends the round
        ("tttvvvtttvv", "v", "t", False),
        ("gggg", "s", "g", False),  # made nowhere before
        ("gsgsgs", "s", "g", True),
        ("gsgggsgggsgggsgg", "s", "g", True),  # a short round at the start is none of the usual ones
        ("gsgggsgggsgggsggg", "s", "g", False),
    ],
)
def test_a_call_comes_early_after_fewer_of_the_others_than_ever(past, ours, theirs, is_early):
    assert came_early(ours, theirs, past, are_alike=str.__eq__) is is_early


@pytest.mark.parametrize(
    ("places", "place"),
    [
        ("ababababb", "a"),
        ("abababab", None),
        ("bbbmbbbmbbm", "b"),
        ("bbbmbbbmbbbm", None),
        ("bbbmbbbmbb", None),
        ("gggx", None),
        ("a", None),
    ],
)
def test_the_place_to_which_a_rank_came_each_time_and_not_now(places, place):
    assert lacked(places) == place


@pytest.mark.parametrize(
    ("here", "there", "place"),
    [
        ("abx", "ab", "x"),
        ("ab", "abx", None),
        ("abx", "aby", None),
        ("ab", "ab", None),
        ("abm", "ab", None),
        ("abx", "ab, and x before", None),
        ("abx", "ab, and y before", "x"),
    ],
)
def test_a_place_to_which_one_rank_alone_has_come_is_its_own_unless_the_other_has_some_too(here, there, place):
    lately, _, before = there.partition(",")
    assert only_in(here, lately, ever=(here, before.removesuffix("before")), without="m") == place


TRAIN, VALID = "train.py:9", "train.py:20"


@pytest.mark.parametrize(
    ("here", "there", "is_out"),
    [
        ([(TRAIN, 50), (VALID, 9), (TRAIN, 1)], [(TRAIN, 50), (VALID, 12)], True),
        ([(TRAIN, 50), (VALID, 12)], [(TRAIN, 50), (VALID, 9), (TRAIN, 1)], False),
        ([(TRAIN, 50), (VALID, 9)], [(TRAIN, 50), (VALID, 12)], False),  # it may be on its way to the next one
        ([(TRAIN, 50), (VALID, 12), (TRAIN, 3)], [(TRAIN, 50), (VALID, 12), (TRAIN, 4)], False),
        ([(TRAIN, 50), (VALID, 9)], [(TRAIN, 51)], False),  # an evaluation of one rank alone
        ([(TRAIN, 9), (VALID, 4), (TRAIN, 5), (VALID, 4)], [(TRAIN, 9), (VALID, 4), (TRAIN, 6)], False),
    ],
)
def test_who_goes_on_after_fewer_batches_of_the_same_place_is_out_of_data(here, there, is_out):
    ours, theirs = (DataSeen(runs=tuple(runs), num_ends=0) for runs in (here, there))
    assert is_out_of_data(ours, theirs) is is_out


def test_an_end_of_data_counts_where_it_is_known():
    assert is_out_of_data(DataSeen(num_ends=2), DataSeen(num_ends=1))
    assert not is_out_of_data(DataSeen(num_ends=2, at=VALID), DataSeen(num_ends=1, at=TRAIN))
    assert not is_out_of_data(DataSeen(num_ends=1, has_end=True), DataSeen(num_ends=1))
    assert is_out_of_data(DataSeen(has_end=True), DataSeen(num_ends=4))
    assert not is_out_of_data(DataSeen(has_end=True), DataSeen(has_end=True))


IN_A_LOOP = """\
def f():
    for x in batches:
        dist.all_reduce(x)
"""
IN_A_HELPER = """\
def f():
    dist.all_reduce(x)
    return (
        x)
"""


@pytest.mark.parametrize(
    ("text", "line", "theirs", "earlier", "is_size"),
    [
        (IN_A_LOOP, 3, "train.py:3", (4, 4), True),
        (IN_A_LOOP, 3, "train.py:3", (4, 5), False),
        (IN_A_LOOP, 3, "train.py:2", (4, 4), False),
        (IN_A_HELPER, 2, "train.py:2", (4, 4), False),
    ],
    ids=["new at its line", "made with that size before", "the peers are at another line", "a helper of many callers"],
)
def test_a_call_of_another_size_is_one_at_the_peers_place_whose_size_is_new_there(text, line, theirs, earlier, is_size):
    """Of an open call the whole stack is known, of earlier ones and of the peers' the line that the recorder kept."""

    def call(size, *lines):
        frames = [Frame(function="f", file=each.partition(":")[0], line=int(each.partition(":")[2])) for each in lines]
        return SimpleNamespace(op="all_reduce", numel=size, frames=tuple(frames))

    def line_of(frame):
        lines = text.splitlines()
        return lines[frame.line - 1] if frame.file == "train.py" and 1 <= frame.line <= len(lines) else None

    ours = call(5, "/site-packages/torch/distributed/distributed_c10d.py:3252", f"train.py:{line}", "job.py:46")
    past = [call(size, f"train.py:{line}") for size in earlier]
    assert is_other_size(SimpleNamespace(ours=ours, theirs=call(4, theirs), past=past), line_of) is is_size
