"""Calls that the house bans, and where."""

import ast
import functools
from collections.abc import Iterator

import pytest

from house.tree import room_of, sources, tree_of

# Rooms that decide: they take clocks as arguments (STYLE.md, rule 3).
PURE = {"layout", "families", "events", "findings", "match", "plan", "perf", "recipe", "health"}
CLOCKS = {
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns",
    "datetime.now", "datetime.datetime.now", "date.today",
}  # fmt: skip
PRINTS = {"print", "sys.stdout.write", "sys.stderr.write"}
ENVIRONMENT = {"os.environ", "os.getenv", "os.putenv", "os.environb"}


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` for a chain of names; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        left = dotted(node.value)
        return None if left is None else f"{left}.{node.attr}"
    return None


@functools.cache
def names_of(file: str) -> frozenset[tuple[str, int]]:
    """`names_used` of a source file, which several tests ask for."""
    return frozenset(names_used(tree_of(file)))


def names_used(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Dotted names that a file uses, and names that it imports from a module, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := dotted(node)) is not None:
            yield name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def uses(banned: set[str], *, outside: set[str] | None = None, inside: set[str] | None = None) -> list[str]:
    """``file:line name`` of each use of a banned name in the rooms `inside`, or in all but those `outside`."""
    found = set()
    for file, text in sources().items():
        room = room_of(file)
        if (outside is not None and room in outside) or (inside is not None and room not in inside):
            continue
        if not any(name.rpartition(".")[2] in text for name in banned):
            continue  # nor need it be parsed
        found |= {f"{file}:{line} {name}" for name, line in names_of(file) if name in banned}
    return sorted(found)


def test_only_the_doors_print():
    # Under plain torchrun or srun there is no CLI: rank 0 of `rank` tells the person then.
    assert uses(PRINTS, outside={"cli", "rank"}) == []


def test_rooms_that_decide_read_no_clock():
    assert uses(CLOCKS, inside=PURE) == []


def test_only_cli_and_rank_read_the_environment():
    found = uses(ENVIRONMENT, outside={"cli", "rank"})
    # A child process that runs a user's script gives it torchrun's variables: it writes the environment, reads none.
    # What Python imports at its start in a user's process has nobody above it who could read it.
    # A probe of the doctor is a program of its own behind a contract of variables.
    allowed = ("sources/script/child.py:", "sources/attach/site/sitecustomize.py:", "doctor/probe/__main__.py:")
    assert [use for use in found if not use.startswith(allowed)] == []


@pytest.mark.parametrize(
    ("text", "banned", "count"),
    [
        ("print(1)", PRINTS, 1),
        ("sys.stdout.write('a')", PRINTS, 1),
        ("console.print(1)", PRINTS, 0),
        ("from time import time", CLOCKS, 1),
        ("time.time()", CLOCKS, 1),
        ("event.time()", CLOCKS, 0),
        ("os.environ['A']", ENVIRONMENT, 1),
        ("from os import environ", ENVIRONMENT, 1),
        ("plan.environment", ENVIRONMENT, 0),
    ],
)
def test_a_banned_name_is_seen_and_its_look_alike_is_not(text, banned, count):
    assert len([name for name, _ in names_used(ast.parse(text)) if name in banned]) == count
