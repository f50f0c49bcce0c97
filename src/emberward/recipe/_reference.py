"""The reference of the keys, made from the dataclasses and their docstrings."""

import ast
import inspect
import sys
from dataclasses import MISSING
from functools import cache
from pathlib import Path

from emberward.recipe._foreign import FOREIGN
from emberward.recipe._origins import value_text
from emberward.recipe._ranges import RANGES
from emberward.recipe._recipe import Source
from emberward.recipe._schema import Key, fields_of, is_section, join, sections, type_text, without_none

BEGIN = "<!-- begin: made from the dataclasses by emberward.recipe.write_reference; do not edit below -->"
END = "<!-- end -->"


def configuration_reference() -> str:
    """Every key with its meaning, type, range and default, then the names of other trainers, as Markdown."""
    lines = []
    for prefix, section in sections().items():
        lines += _section(prefix, section)
        if prefix == "data":
            lines += _section("data.train[...] and evaluation.sets[...]", Source, prefix_of_keys="")
    lines += [
        "## Names of other trainers",
        "",
        "A key that another trainer has is refused with ours in the message.",
        "",
        "| theirs | of | ours | note |",
        "|---|---|---|---|",
    ]
    for name, meant in sorted(FOREIGN.items()):
        ours = "-" if meant.ours is None else f"`{meant.ours}`"
        lines.append(f"| `{name}` | {meant.project} | {ours} | {meant.note or ''} |")
    return "\n".join(lines) + "\n"


def write_reference(path: Path) -> None:
    """Puts the reference between the two marks of the file at `path`. Raises ValueError when it has no marks."""
    path.write_text(with_reference(path.read_text(encoding="utf-8")), encoding="utf-8")


def with_reference(text: str) -> str:
    """`text` with the reference between its two marks. Raises ValueError when it has no marks."""
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"expected the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{configuration_reference()}\n{END}{after}"


def _section(prefix: str, section: type, prefix_of_keys: str | None = None) -> list[str]:
    rows = [
        _row(join(prefix if prefix_of_keys is None else prefix_of_keys, key.name), key, section)
        for key in fields_of(section).values()
        if not is_section(key.type) or without_none(key.type)[1]
    ]
    heading = f"`{prefix}`" if prefix else "The run"
    return [
        f"## {heading}",
        "",
        inspect.cleandoc(section.__doc__ or ""),
        "",
        "| key | default | value | meaning |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def _row(name: str, key: Key, section: type) -> str:
    default = "required" if key.default is MISSING else f"`{_default_text(key.default)}`"
    allowed = RANGES.get(name)
    kind = type_text(key.type) if not is_section(key.type) else "its keys below, or null"
    bounds = f", {allowed}" if allowed is not None else ""
    return f"| `{name}` | {default} | {kind}{bounds} | {_meanings(section.__module__)[section.__name__][key.name]} |"


def _default_text(value: object) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], Source):
        return ",".join(source.path for source in value)
    return value_text(value) or "[]"


@cache
def _meanings(module: str) -> dict[str, dict[str, str]]:
    """The docstring under each field of each dataclass of a module, by class and field."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if not isinstance(node, ast.ClassDef):
            continue
        fields: dict[str, str] = {}
        for statement, following in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
                and isinstance(following.value.value, str)
            ):
                fields[statement.target.id] = " ".join(following.value.value.split())
        found[node.name] = fields
    return found
