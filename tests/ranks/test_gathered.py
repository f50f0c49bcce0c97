"""What two real ranks compute alike of rows that both have gathered is seen, and nothing else."""

import inspect
from pathlib import Path

import pytest

from emberward.lens import operations_of
from emberward.lens._of_all import computed_by_all
from ranks import gathered_cases
from ranks.gathered_cases import PROGRAMS

HEAD = {
    "form": 1, "device": "cpu", "offset_ns": 0, "bounds_ns": [], "free_bytes": None, "why_short": None, "is_cut": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def seen(pool):
    """By program what is told of its lines: all programs run on one pair of ranks."""
    of_ranks = pool.run(gathered_cases.gathered_case, 2)

    def told(name):
        ranks = [
            operations_of([{**HEAD, "rank": rank}, *({"of_all": each} for each in lines[name]), {"end": True}])
            for rank, lines in enumerate(of_ranks)
        ]
        return {where[0]: each for where, each in computed_by_all(ranks).items()}

    return told


def marked(program):
    lines, first = inspect.getsourcelines(program)
    file = str(Path(gathered_cases.__file__))
    return {(file, first + at) for at, line in enumerate(lines) if "# told" in line}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_all_ranks_compute_alike_is_told_at_its_lines(program, seen):
    assert {*seen(program.__name__)} == marked(program)


def test_half_of_it_would_do_on_two_ranks_and_of_a_backward_that_begins_alike(seen):
    told = seen("scores_of_all_pairs")
    assert 0.2 < max(each.share for each in told.values()) <= 0.5
    assert 0.0 < sum(each.backward for each in told.values()) <= 0.5
    alone = [*seen("keys_of_all_rows").values(), *seen("guesses_of_all_rows").values()]
    assert [each.backward for each in alone] == [0.0] * len(alone)
