"""What `make test` leaves out exists, leaves no test function without a case unless another covers it, and pays."""

import ast
import json

import pytest
from sample import BUDGET_S, EVERY, LATER, OVER, SELDOM, is_left_out, is_seldom

from house.tree import ROOT

TESTS = ROOT / "tests"


def functions_of(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("file", sorted(EVERY))
def test_a_sampled_file_exists_and_has_cases(file):
    assert functions_of(file)
    assert "parametrize" in (TESTS / file).read_text(encoding="utf-8"), "there is nothing to sample"
    assert EVERY[file] > 1


@pytest.mark.parametrize("test", sorted(LATER))
def test_a_test_for_later_exists_and_says_where_its_mechanism_is_covered(test):
    file, _, function = test.partition("::")
    assert function in functions_of(file)
    assert ((TESTS / file).parent / LATER[test].split()[0]).exists()


def test_the_first_case_is_never_left_out():
    assert not any(is_left_out(file, "test_any", 0) for file in EVERY)
    assert is_left_out("ranks/test_layout_grid.py", "test_any", 1)


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
def test_what_is_seldom_run_is_no_case_of_make_test(test):
    """`make test-all` is all that `make test` is, and more."""
    file, _, function = test.partition("::")
    cases = range(1000)
    assert {n for n in cases if is_seldom(file, function, n)} <= {n for n in cases if is_left_out(file, function, n)}


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
