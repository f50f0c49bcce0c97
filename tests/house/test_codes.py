"""Every finding code has its exact message under test, and a look-alike that raises no alarm: the table is codes.txt.

That each code has a section with a "Do" in docs/findings.md is held by test_references.py.
"""

import ast
import functools
from pathlib import Path

import pytest

from emberward.findings import CATALOGUE
from house.tree import ROOT

TABLE = Path(__file__).with_name("codes.txt")


def rows() -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """(exact message, look-alike) by code, and by code what an open one still lacks."""
    text = TABLE.read_text(encoding="utf-8")
    done, _, open_ = text.partition("\nopen\n")
    whole = {
        code: (exact, alike)
        for code, exact, alike in (line.split() for line in done.splitlines() if line and not line.startswith("#"))
    }
    lacking = dict(line.split(" ", 1) for line in open_.splitlines() if line)
    return whole, lacking


@functools.cache
def functions_of(name: str) -> dict[str, ast.FunctionDef]:
    """The test functions of a file below tests/ by name; none when there is no such file."""
    path = ROOT / "tests" / name
    if not path.is_file():
        return {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def function_of(test: str) -> ast.FunctionDef | None:
    name, _, function = test.partition("::")
    return functions_of(name).get(function)


def compares_whole_texts(test: ast.FunctionDef) -> bool:
    """Whether the test holds something equal to something else; ``in`` and ``match=`` let words change unseen."""
    return any(isinstance(op, ast.Eq) for node in ast.walk(test) if isinstance(node, ast.Compare) for op in node.ops)


@functools.cache
def words_beside(name: str) -> str:
    """The test file, the tables of text beside it and its snapshots, as one text."""
    path = ROOT / "tests" / name
    files = [path, *path.parent.glob("*.txt"), *path.parent.glob("snapshots/**/*")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())


def test_every_code_stands_in_the_table_once():
    whole, lacking = rows()
    assert set(whole) & set(lacking) == set(), "a code that has both is not open"
    assert set(whole) | set(lacking) == set(CATALOGUE), "add a row to tests/house/codes.txt, or take one out"


@pytest.mark.parametrize("code", sorted(rows()[0]))
def test_its_message_and_its_look_alike_are_under_test(code):
    exact, alike = rows()[0][code]
    missing = [test for test in (exact, alike) if function_of(test) is None]
    assert missing == [], f"{code}: tests/house/codes.txt names tests that do not exist"
    found = function_of(exact)
    assert found is not None
    assert compares_whole_texts(found), f"{code}: {exact} holds no text equal to the message"
    assert code in words_beside(exact.partition("::")[0]), f"{code} stands neither in the test's file nor beside it"


def test_the_table_is_in_order_and_an_open_code_says_what_it_lacks():
    whole, lacking = rows()
    assert list(whole) == sorted(whole)
    assert all(text.startswith(("message", "look-alike")) for text in lacking.values())
