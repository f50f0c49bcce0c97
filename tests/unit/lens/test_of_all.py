"""What all ranks compute alike costs what each could save. Real ranks show that it is seen: ranks/test_gathered.py."""

from dataclasses import replace

import pytest
import torch
from unit.lens.test_alike import line_of, seen_of

from emberward.findings import Cause
from emberward.lens import Sources
from emberward.lens._alike import alike_work
from emberward.lens._of_all import computed_by_all
from emberward.lens._operations import OfAll

SCORES = 1, 800, True
LOSS = 2, 100, True
OTHER = 3, 100, True


def compares_all_rows(step):
    every = torch.rand(300, 600)
    return (every @ every.T).sort(1)  # here


def of_all(*calls, roots=(2,), all_ns=1000):
    return OfAll(calls=calls, all_ns=all_ns, graph_ns=4000, roots=roots)


def by_all(rank, *ranks):
    where = (("train.py", 9),)
    found = computed_by_all([replace(rank, rank=at, of_all={where: each}) for at, each in enumerate(ranks)])
    return found.get(where, (0.0, 0.0))


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return seen_of(compares_all_rows, tmp_path_factory.mktemp("rank"))


def test_each_rank_could_save_the_part_of_the_others(seen):
    rank, _ = seen
    assert by_all(rank, *[of_all(SCORES, LOSS)] * 2) == pytest.approx((0.45, 900 / 4000 / 2))
    assert by_all(rank, *[of_all(SCORES, LOSS)] * 4) == pytest.approx((0.675, 900 / 4000 * 3 / 4))
    assert by_all(rank, of_all(SCORES, LOSS), of_all(SCORES, LOSS, all_ns=2000))[0] == pytest.approx(0.225)


def test_what_differs_between_ranks_or_says_nothing_does_not_count(seen):
    rank, _ = seen
    assert by_all(rank, of_all(SCORES, LOSS), of_all(SCORES, OTHER))[0] == pytest.approx(0.4)
    assert by_all(rank, *[of_all((None, 800, True))] * 2) == (0.0, 0.0)
    assert by_all(rank, of_all(SCORES), of_all(SCORES, LOSS)) == (0.0, 0.0)
    assert by_all(rank, of_all(SCORES)) == (0.0, 0.0)


@pytest.mark.parametrize("roots", [((2,), (3,)), ((), ()), ((None,), (None,))])
def test_a_backward_counts_where_it_begins_at_what_all_have_computed_alike(seen, roots):
    rank, _ = seen
    share, backward = by_all(rank, *(of_all(SCORES, roots=each) for each in roots))
    assert (share, backward) == (pytest.approx(0.4), 0.0)


def test_it_is_told_at_the_line_that_takes_most_with_what_it_costs(seen):
    operations, samples = seen
    at = (__file__, line_of(compares_all_rows))
    wheres = {
        tuple((place.file, place.line) for place in each.stack if place.owner == "user") for each in samples.stacks
    }
    places = {where: of_all(SCORES, LOSS) for where in wheres if where[:1] == (at,)}
    ranks = [replace(operations, rank=rank, of_all=places) for rank in (0, 1)]
    (waste,) = alike_work(ranks, [replace(samples, rank=rank) for rank in (0, 1)], Sources())
    assert (waste.cause, waste.site, waste.ranks) == (Cause.REDUNDANT_WORK, "{}:{}".format(*at), (0, 1))
    assert 0.05 < waste.share < 0.46
    assert "compares_all_rows(), with the rows of all ranks" in waste.evidence[0]
    assert alike_work(ranks[:1], [samples], Sources()) == ()
