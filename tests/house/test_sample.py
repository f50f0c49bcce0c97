"""What `make test` leaves out exists, leaves no test function without a case unless another covers it, and pays."""

import ast
import json

import pytest
from sample import BUDGET_S, FIRST, LATER, OVER, SELDOM, WHOLE, is_left_out, is_seldom, sample_of

from house.tree import ROOT

TESTS = ROOT / "tests"


def functions_of(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("place", [*FIRST, *WHOLE])
def test_a_place_of_its_own_rule_exists_and_has_cases(place):
    files = [TESTS / place] if place.endswith(".py") else list((TESTS / place).glob("test_*.py"))
    assert any("parametrize" in file.read_text(encoding="utf-8") for file in files), "there is nothing to sample"
    assert not any(place.startswith(other) for other in (*FIRST, *WHOLE) if other != place), "one rule for each file"


LEFT = [(file, function, covered) for file, tests in sorted(LATER.items()) for function, covered in tests.items()]


@pytest.mark.parametrize(("file", "function", "covered"), LEFT)
def test_a_test_for_later_exists_and_its_mechanism_is_covered_by_tests_of_make_test(file, function, covered):
    assert function in functions_of(file)
    by = ((TESTS / file).parent / covered.split()[0].rstrip(",")).resolve().relative_to(TESTS).as_posix()
    assert functions_of(by) - set(LATER.get(by, ())), "all of it is left out itself"


@pytest.mark.parametrize(
    ("num_cases", "kept"),
    [
        (0, ()), (1, (0,)), (2, (0, 1)), (3, (0, 2)), (4, (0, 3)), (5, (0, 2, 4)), (10, (0, 3, 6, 9)),
        (100, (0, 11, 22, 33, 44, 55, 66, 77, 88, 99)),
    ],
)  # fmt: skip
def test_of_many_cases_their_square_root_runs_the_first_and_the_last_among_them(num_cases, kept):
    assert sample_of(num_cases) == set(kept)
    assert [number for number in range(num_cases) if not is_left_out("unit/x.py", "test_any", number, num_cases)] == [
        *kept
    ]


def test_the_first_case_is_never_left_out_and_of_a_rule_none():
    assert not any(is_left_out(place, "test_any", 0, 9) for place in FIRST)
    assert all(is_left_out(place, "test_any", number, 2) for place in FIRST for number in (1, 2))
    assert not any(is_left_out(place, "test_any", number, 9) for place in WHOLE for number in range(9))


@pytest.mark.parametrize("test", sorted(SELDOM))
def test_a_test_of_which_cases_are_seldom_run_exists_has_cases_and_says_where_they_are_covered(test):
    file, _, function = test.partition("::")
    stride, covered = SELDOM[test]
    assert function in functions_of(file)
    assert stride > 1
    assert ((TESTS / file).parent / covered.split()[0]).exists()
    assert not is_seldom(file, function, 0)
    assert is_seldom(file, function, 1)
    assert not is_seldom(file, "test_another", 1)


@pytest.mark.parametrize("test", sorted(SELDOM))
@pytest.mark.parametrize("num_cases", [2, 9, 100])
def test_what_is_seldom_run_is_no_case_of_make_test(test, num_cases):
    """`make test-all` is all that `make test` is, and more."""
    file, _, function = test.partition("::")
    cases = range(num_cases)
    seldom = {n for n in cases if is_seldom(file, function, n)}
    assert seldom <= {n for n in cases if is_left_out(file, function, n, num_cases)}


def over(seconds: dict[str, float]) -> set[str]:
    """The files that take more than the budget and are not said to."""
    return {file for file, taken in seconds.items() if taken > BUDGET_S} - set(OVER)


def test_no_file_takes_more_than_its_budget_without_a_word_why():
    told = json.loads((ROOT / "docs" / "measured" / "test_times.json").read_text(encoding="utf-8"))["attempts"]
    names = {each["key"]: f"{each['key'].removeprefix('tests.').replace('.', '/')}.py" for each in told}
    assert (
        over({names[each["key"]]: each["seconds"] for each in told if (TESTS / names[each["key"]]).exists()}) == set()
    )
    assert [file for file in OVER if not (TESTS / file).exists()] == []


def test_a_file_over_its_budget_is_seen():
    assert over({"unit/one.py": BUDGET_S + 0.1, "unit/two.py": BUDGET_S}) == {"unit/one.py"}
