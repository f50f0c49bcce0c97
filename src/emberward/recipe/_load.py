"""A recipe by its name: a preset, a Python function, a YAML or TOML file; and overrides on top."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_origin

from emberward.findings import ConfigError
from emberward.recipe._coerce import BOOLS
from emberward.recipe._document import read_text, toml_table, unreadable, yaml_table, yaml_value
from emberward.recipe._draft import Draft
from emberward.recipe._foreign import foreign
from emberward.recipe._names import closest, closest_options
from emberward.recipe._node import Node, Scalar, Table
from emberward.recipe._origins import COMMAND_LINE, PRESET
from emberward.recipe._python import recipe_of_file, recipe_of_module, recipe_of_preset
from emberward.recipe._recipe import Recipe
from emberward.recipe._schema import keys, sections, without_none
from emberward.recipe.presets import PRESETS

RESOLVED_SECTION = "resolved"
_FORMS = "a preset, file.py, file.py:function, package.module:function, file.yaml or file.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A recipe as it was written, nothing worked out yet, and the origin of each key.

    `name` is what it was called. Origins read ``default``, ``preset NAME``, ``file:line`` or ``command line``.
    """

    name: str
    recipe: Recipe
    origins: Mapping[str, str]


def load_recipe(name: str, overrides: Sequence[str] = (), *, options: Sequence[str] = ()) -> Loaded:
    """The recipe called `name` with `overrides` (``a.b=c``, ``--a.b c``, ``--a.b=c``) on top, the last one winning.

    `options` are those of the command, as ``--ranks``: a word that is no key may be a misspelt one. Reads files and,
    for a Python recipe, runs it. Raises ConfigError C101, C102, C103 or C106.
    """
    draft = Draft()
    _load_base(name, draft)
    for key, text in split_overrides(overrides, options):
        draft.set(key, _override_node(key.replace("-", "_"), text))
    return Loaded(name=name, recipe=draft.recipe(), origins=draft.origins)


def _load_base(name: str, draft: Draft) -> None:
    if name in PRESETS:
        draft.take(*recipe_of_preset(PRESETS[name], f"{PRESET}{name}"))
        return
    head, colon, function = name.rpartition(":")
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        draft.merge(without_resolved(yaml_table(read_text(path), name)))
    elif path.suffix == ".toml":
        draft.merge(without_resolved(toml_table(read_text(path), name)))
    elif path.suffix == ".py":
        draft.take(*recipe_of_file(path, None, name))
    elif colon and head.endswith(".py"):
        draft.take(*recipe_of_file(Path(head), function, head))
    elif colon and all(part.isidentifier() for part in (*head.split("."), function)):
        draft.take(*recipe_of_module(head, function))
    else:
        near = closest(name, PRESETS)
        raise unreadable(
            "no such recipe",
            where=COMMAND_LINE,
            expected=_FORMS,
            found=name,
            next=f"did you mean {near[0]}?" if near else f"presets: {', '.join(PRESETS)}",
        )


def without_resolved(table: Table) -> Table:
    """The table without the section that `write_resolved` adds for `read_resolved`."""
    entries = tuple(entry for entry in table.entries if entry.key != RESOLVED_SECTION)
    return Table(entries=entries, where=table.where)


def split_overrides(overrides: Sequence[str], options: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Each override as its key and its value's text. Raises ConfigError C102 for a word that is no override.

    A key that is nearer to one of the command's `options` than to any key of the recipe is refused with C101.

    A ``--key`` of true-or-false may stand without a value; every other takes the next word as its value.
    """
    words = list(overrides)
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        key, equals, value = word.partition("=")
        _require_no_option(key.removeprefix("--"), word, options)
        if not word.startswith("--"):
            if not equals or not key:
                raise _no_value(word, "key=value, --key value or --key=value")
            yield key, value
        elif equals:
            yield key.removeprefix("--"), value
        else:
            key = key.removeprefix("--")
            following = words[position] if position < len(words) else None
            is_value = following is not None and following.lower() in BOOLS
            if _is_flag(key) and not is_value:
                yield key, "true"
            elif following is None:
                raise _no_value(word, f"--{key} VALUE")
            else:
                position += 1
                yield key, following


def _require_no_option(key: str, word: str, options: Sequence[str]) -> None:
    """Raises ConfigError C101 for a `key` that the recipe lacks and that is nearer to an option than to any key."""
    name = key.replace("-", "_")
    near = [] if name in keys() or name in sections() or foreign(key) else closest_options(key, options)
    if near:
        raise ConfigError(
            f"unknown {'option' if word.startswith('--') else 'key'} {word.partition('=')[0]}",
            code="C101",
            where=COMMAND_LINE,
            expected="an option of the command, or a key of the recipe",
            found=word,
            next=f"did you mean {near[0]}?",
        )


def _is_flag(key: str) -> bool:
    known = keys().get(key.replace("-", "_"))
    return known is not None and without_none(known.type)[0] is bool


def _no_value(word: str, expected: str) -> ConfigError:
    return ConfigError("an override has no value", code="C102", where=COMMAND_LINE, expected=expected, found=word)


def _override_node(key: str, text: str) -> Node:
    """The value of an override. Lists and sections may be written as YAML; a text stays what it is."""
    takes_parts = key in sections() or (key in keys() and get_origin(without_none(keys()[key].type)[0]) is tuple)
    if takes_parts and text.lstrip().startswith(("[", "{")):
        return yaml_value(text, COMMAND_LINE)
    return Scalar(value=text, where=COMMAND_LINE, is_plain=True)
