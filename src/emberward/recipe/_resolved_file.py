"""``config.resolved.yaml``: a resolved recipe, each value with its origin.

[Note: resolved file]
Plain YAML of the recipe's fields with the origin of each value in a comment, which `load_recipe` reads like any other
recipe; then the section ``resolved``, which `read_resolved` needs: the format's version, the number of ranks, the
tokenizer's size, origins and notes. Its last line is ``whole: true``, so that a file that was cut is refused. Numbers
are written so that YAML 1.1 and 1.2 read them alike (1.0e-05: to YAML 1.1, 1e-05 is a text).
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum
from pathlib import Path

import yaml

from emberward import __version__
from emberward.findings import ConfigError
from emberward.plan import solve_batch
from emberward.recipe._document import read_text, unreadable, yaml_table
from emberward.recipe._draft import Draft
from emberward.recipe._load import RESOLVED_SECTION, without_resolved
from emberward.recipe._recipe import Recipe, Source
from emberward.recipe._resolve import Resolved
from emberward.recipe._schema import fields_of, is_section, join, leaves

FORMAT = 1
NEWER_KEY = "default, as the run began before the key was there"
# YAML 1.1 section 5.1: not printable, or a line break.
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def recipe_yaml(recipe: Recipe, origins: Mapping[str, str] | None = None) -> str:
    """The recipe as YAML, with origins as comments where given; `load_recipe` reads it back unchanged."""
    return "\n".join(_section_lines(recipe, "", origins or {}, 0)) + "\n"


def write_resolved(resolved: Resolved, path: Path) -> None:
    """Writes config.resolved.yaml: aside, synced, then renamed over `path`. See [Note: resolved file]."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(_text(resolved))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _text(resolved: Resolved) -> str:
    lines = [
        f"# Resolved by Emberward {__version__}. After each value: where it came from.",
        *(f"# {line}" for line in resolved.batch.explain().splitlines()),
        "",
        recipe_yaml(resolved.recipe, resolved.origins),
        "# For Emberward's own reading; as a recipe, the file ends here.",
        f"{RESOLVED_SECTION}:",
        f"  format: {FORMAT}",
        f"  num_ranks: {resolved.num_ranks}",
        f"  tokenizer_size: {resolved.tokenizer_size}",
        "  origins:",
        *(f"    {name}: {_scalar(origin)}" for name, origin in resolved.origins.items()),
        "  notes: []" if not resolved.notes else "  notes:",
        *(f"    - {_scalar(note)}" for note in resolved.notes),
        "  whole: true",
    ]
    return "\n".join(lines) + "\n"


def _section_lines(section: object, prefix: str, origins: Mapping[str, str], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key in fields_of(type(section)).values():
        name, value = join(prefix, key.name), getattr(section, key.name)
        comment = f"  # {' '.join(origins[name].split())}" if name in origins else ""
        if is_section(key.type) and value is not None:
            yield f"{indent}{key.name}:"
            yield from _section_lines(value, name, origins, depth + 1)
        elif isinstance(value, tuple) and value and isinstance(value[0], Source):
            yield f"{indent}{key.name}:{comment}"
            for source in value:
                first, *rest = _section_lines(source, name, {}, 0)
                yield f"{indent}  - {first}"
                yield from (f"{indent}    {line}" for line in rest)
        else:
            yield f"{indent}{key.name}: {_scalar(value)}{comment}"


def _scalar(value: object) -> str:
    """A value in YAML that versions 1.1 and 1.2 read alike."""
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, IntEnum):
        return str(int(value))
    if isinstance(value, Enum):
        return _scalar(value.value)
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        return repr(value) if not exponent or "." in mantissa else f"{mantissa}.0e{power}"
    if isinstance(value, str):
        # JSON's texts are YAML's double-quoted ones, but for characters that YAML does not take as they are.
        text = json.dumps(value, ensure_ascii=False)
        return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    assert isinstance(value, bool | int), f"a recipe holds no {type(value).__name__}"
    return json.dumps(value)


def read_resolved(path: Path) -> Resolved:
    """What `write_resolved` wrote. Raises ConfigError C106 for a file that is cut, foreign or newer.

    A key that this version has and the file does not know has its default: an upgrade in the middle of a run leaves the
    run as it was.
    """
    text = read_text(path)
    table = yaml_table(text, str(path))
    try:
        # The one in C, where PyYAML has it: what it says of an error is not shown, `yaml_table` has read the text.
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise unreadable("the resolved recipe cannot be read", where=str(path), found=str(error)) from error
    inside = document.get(RESOLVED_SECTION) if isinstance(document, dict) else None
    if not isinstance(inside, dict) or inside.get("whole") is not True:
        raise _refused(path, "the resolved recipe is cut short", "a section `resolved` that ends with `whole: true`")
    if inside.get("format") != FORMAT:
        raise _refused(
            path, "the resolved recipe has another format", f"format {FORMAT}", f"format {inside.get('format')}"
        )
    draft = Draft()
    draft.merge(without_resolved(table))
    recipe = draft.recipe()
    origins, notes = inside.get("origins"), inside.get("notes")
    num_ranks, tokenizer_size = inside.get("num_ranks"), inside.get("tokenizer_size")
    if isinstance(origins, dict):
        known = leaves(recipe)
        origins |= {key: NEWER_KEY for key in known if key not in origins and not _is_written(document, key)}
    if not (
        isinstance(origins, dict)
        and isinstance(notes, list)
        and isinstance(num_ranks, int)
        and isinstance(tokenizer_size, int)
        and set(origins) == set(leaves(recipe))
    ):
        raise _refused(path, "the resolved recipe is incomplete", "num_ranks, tokenizer_size, notes and every origin")
    batch = recipe.batch
    return Resolved(
        recipe=recipe,
        origins=origins,
        batch=solve_batch(
            global_batch=batch.global_batch,
            micro_batch=batch.micro_batch,
            accumulation=batch.accumulation,
            dp=recipe.layout.dp,
            ramp_up=batch.ramp_up,
        ),
        notes=tuple(notes),
        num_ranks=num_ranks,
        tokenizer_size=tokenizer_size,
    )


def _is_written(document: Mapping[str, object], key: str) -> bool:
    """Whether the file gives the key, such as ``optim.lr``, or a section above it, a value."""
    inside: object = document
    for part in key.split("."):
        if not isinstance(inside, Mapping):
            return True
        if part not in inside:
            return False
        inside = inside[part]
    return True


def _refused(path: Path, what: str, expected: str, found: str | None = None) -> ConfigError:
    return unreadable(what, where=str(path), expected=expected, found=found)
