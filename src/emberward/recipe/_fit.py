"""A recipe for the number of ranks that a person has: adapted where it may be, else refused with layouts that fit."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emberward.findings import ConfigError
from emberward.recipe._layouts import layouts_for
from emberward.recipe._load import Loaded, load_recipe, split_overrides
from emberward.recipe._origins import DEFAULT, PRESET
from emberward.recipe._recipe import LayoutConfig
from emberward.recipe._resolve import Resolved, resolve

_SIZES = ("layout.dp", "layout.tp", "layout.pp")
_OF_THE_LAYOUT = ("C104", "C105")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A recipe as it was loaded for `num_ranks` ranks, and what a person should know of how it came to fit."""

    loaded: Loaded
    num_ranks: int
    notes: tuple[str, ...]


def fit_ranks(name: str, overrides: Sequence[str], *, num_ranks: int | None, command: Sequence[str]) -> Fitted:
    """The recipe `name` with `overrides` for `num_ranks` ranks, for its own number of ranks when that is None.

    A preset's own layout gives way to the number of ranks; a layout that the person wrote does not: `resolve_fitted`
    refuses it where it does not fit. `command` is what the person called before the recipe's name, for advice.
    Reads files. Raises what `load_recipe` raises, and ConfigError C104 when nothing says how many ranks there are.
    """
    loaded = load_recipe(name, overrides)
    layout = loaded.recipe.layout
    own = None if layout.dp is None else layout.dp * layout.tp * layout.pp
    if num_ranks is None:
        if own is None:
            raise ConfigError(
                "the number of ranks is not known",
                code="C104",
                where="layout.dp",
                expected="--ranks N, or layout.dp with layout.tp and layout.pp",
                found="neither",
                next=f"{shlex.join([*command, name])} --ranks {layout.tp * layout.pp}",
            )
        return Fitted(loaded=loaded, num_ranks=own, notes=())
    written = [key for key in _SIZES if not _is_given(loaded.origins, key)]
    nearest = () if own in (None, num_ranks) or written else layouts_for(loaded.recipe, num_ranks, most=1)
    if not nearest:
        return Fitted(loaded=loaded, num_ranks=num_ranks, notes=())
    changes = _changes(nearest[0])
    note = f"{num_ranks} rank{'s' if num_ranks != 1 else ''} instead of the recipe's {own}: {' '.join(changes)}"
    return Fitted(loaded=load_recipe(name, (*changes, *overrides)), num_ranks=num_ranks, notes=(note,))


def resolve_fitted(
    fitted: Fitted, overrides: Sequence[str], *, tokenizer_size: int, command: Sequence[str]
) -> Resolved:
    """The fitted recipe, resolved. A layout or batch that does not fit is refused with the nearest layouts that do.

    `overrides` and `command` are what the person typed; the refusal repeats them as commands that would pass. Raises
    ConfigError as `resolve` does.
    """
    try:
        return resolve(fitted.loaded, num_ranks=fitted.num_ranks, tokenizer_size=tokenizer_size)
    except ConfigError as error:
        if error.code in _OF_THE_LAYOUT and fitted.num_ranks >= 1:
            error.choices = tuple(_command(command, fitted, overrides, layout) for layout in _nearest(fitted))
        raise


def _nearest(fitted: Fitted) -> tuple[LayoutConfig, ...]:
    """The nearest layouts that fit; none when the recipe's own does, so that something else is wrong."""
    own, num_ranks = fitted.loaded.recipe.layout, fitted.num_ranks
    near = layouts_for(fitted.loaded.recipe, num_ranks)
    is_own = bool(near) and (near[0].tp, near[0].pp) == (own.tp, own.pp) and own.dp in (None, near[0].dp)
    return () if is_own else near


def _is_given(origins: Mapping[str, str], key: str) -> bool:
    """Whether `key` is as the preset or the defaults have it, and not something the person wrote."""
    return origins.get(key, DEFAULT).startswith((PRESET, DEFAULT))


def _changes(layout: LayoutConfig) -> list[str]:
    return [f"layout.dp={layout.dp}", f"layout.tp={layout.tp}", f"layout.pp={layout.pp}"]


def _command(command: Sequence[str], fitted: Fitted, overrides: Sequence[str], layout: LayoutConfig) -> str:
    """The command that the person typed, with another layout."""
    kept = [f"{key}={text}" for key, text in split_overrides(overrides) if key.replace("-", "_") not in _SIZES]
    return shlex.join([*command, fitted.loaded.name, *kept, *_changes(layout), "--ranks", str(fitted.num_ranks)])
