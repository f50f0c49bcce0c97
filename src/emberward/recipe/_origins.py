"""Where values came from, in words: ``default``, ``preset NAME``, ``file:line``, ``command line``, ``worked out from``.

[Note: origins]
Origins are texts, since people read them; their first words decide, and only this file looks at them.
"""

from collections.abc import Mapping

from emberward.recipe._recipe import Recipe, Source
from emberward.recipe._schema import leaves

DEFAULT = "default"
COMMAND_LINE = "command line"
PRESET = "preset "
WORKED_OUT = "worked out from "


def blame(origins: Mapping[str, str], *names: str) -> str:
    """The origin, among those of `names`, that a person can change first: command line, file, preset, default."""
    return min((origins[name] for name in names), key=_distance_from_a_person)


def _distance_from_a_person(origin: str) -> int:
    if origin == COMMAND_LINE:
        return 0
    if origin.startswith(PRESET):
        return 2
    if origin.startswith(WORKED_OUT):
        return 3
    return 4 if origin == DEFAULT else 1


def cited(recipe: Recipe, origins: Mapping[str, str], *names: str) -> str:
    """Keys with values and origins, e.g. ``layout.tp=3 (command line), model.num_heads=4 (default)``."""
    values = leaves(recipe)
    return ", ".join(f"{name}={value_text(values[name])} ({origins[name]})" for name in names)


def value_text(value: object) -> str:
    """A value as it is written in an override."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Source):
        name = "" if value.name is None else f", name: {value.name}"
        return (
            value.path if value == Source(path=value.path) else f"{{path: {value.path}, weight: {value.weight}{name}}}"
        )
    if isinstance(value, tuple):
        text = ",".join(value_text(item) for item in value)
        return f"[{text}]" if "{" in text else text
    return f"{value:d}" if isinstance(value, int) else str(value)
