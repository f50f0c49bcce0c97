"""What `make test` leaves out exists, leaves no test function without a case unless another covers it, and pays."""

import ast

import pytest
from sample import EVERY, LATER, is_left_out

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
