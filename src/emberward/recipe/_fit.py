"""A recipe for the number of ranks that a person has: adapted where it may be, else refused with layouts that fit."""

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from emberward.findings import ConfigError
from emberward.recipe._draft import Draft
from emberward.recipe._layouts import layouts_for, least_misfit, misfit_reasons, num_ranks_text, ranks_for
from emberward.recipe._load import Loaded, load_recipe, split_overrides
from emberward.recipe._origins import DEFAULT, PRESET, WORKED_OUT
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


def fit_ranks(
    name: str,
    overrides: Sequence[str],
    *,
    num_ranks: int | None,
    command: Sequence[str],
    options: Sequence[str] = (),
    keeps_layout: bool = True,
) -> Fitted:
    """The recipe `name` with `overrides` for `num_ranks` ranks, for its own number of ranks when that is None.

    A preset's own layout gives way to the number of ranks; a layout that the person wrote does not: `resolve_fitted`
    refuses it where it does not fit. `command` is what the person called before the recipe's name, for advice, and
    `options` those that the command has. `keeps_layout` False: a layout that was written gives way too, as for a run
    that goes on with fewer hosts. Reads files. Raises what `load_recipe` raises, and ConfigError C104 when
    nothing says how many ranks there are, or when only other numbers of ranks have a layout.
    """
    loaded = load_recipe(name, overrides, options=options)
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
                next=_command(command, name, overrides, (), layout.tp * layout.pp),
            )
        return Fitted(loaded=loaded, num_ranks=own, notes=())
    is_written = keeps_layout and any(not _is_given(loaded.origins, key) for key in _SIZES)
    if own in (None, num_ranks) or num_ranks < 1 or is_written:
        return Fitted(loaded=loaded, num_ranks=num_ranks, notes=())
    near = layouts_for(loaded.recipe, num_ranks, most=1)
    others = () if near else ranks_for(loaded.recipe, num_ranks)
    if others:
        raise _no_layout(loaded, overrides, num_ranks, others, command)
    # Where no number of ranks would do, the number is not the cause: with any layout of it, `resolve` names the cause.
    layout = near[0] if near else least_misfit(loaded.recipe, num_ranks)
    draft = Draft.of(loaded.recipe, loaded.origins)
    for key, size in zip(_SIZES, (layout.dp, layout.tp, layout.pp), strict=True):
        draft.put(key, size, f"{WORKED_OUT}{num_ranks_text(num_ranks)}")
    note = f"{num_ranks_text(num_ranks)} instead of the recipe's {own}: {' '.join(_changes(layout))}"
    adapted = Loaded(name=loaded.name, recipe=draft.recipe(), origins=draft.origins)
    return Fitted(loaded=adapted, num_ranks=num_ranks, notes=(note,))


def _no_layout(
    loaded: Loaded, overrides: Sequence[str], num_ranks: int, others: Sequence[int], command: Sequence[str]
) -> ConfigError:
    """The error for a number of ranks that no layout has, with the nearest numbers that one has."""
    return ConfigError(
        f"the recipe has no layout of {num_ranks_text(num_ranks)}",
        code="C104",
        where="--ranks",
        expected=f"{' or '.join(map(str, others))} ranks",
        found="; ".join(misfit_reasons(loaded.recipe, num_ranks)),
        choices=tuple(_command(command, loaded.name, overrides, (), count) for count in others),
    )


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
            passing = tuple(_passing(command, fitted, overrides, error.next, tokenizer_size))
            error.choices = passing or _one_step(command, fitted, overrides, error.next)
        raise


def _passing(
    command: Sequence[str], fitted: Fitted, overrides: Sequence[str], advice: str | None, tokenizer_size: int
) -> Iterator[str]:
    """Whole commands that would pass: the nearest layouts, else what the refusal advises, else other ranks."""
    name, num_ranks = fitted.loaded.name, fitted.num_ranks
    layouts = _nearest(fitted)
    tries = [(_changes(layout), num_ranks) for layout in layouts]
    if not tries:
        tries = [(words, num_ranks) for words in _overrides_in(advice)]
        tries += [([], count) for count in ranks_for(fitted.loaded.recipe, num_ranks)]
    for changes, count in tries:
        with contextlib.suppress(ConfigError):
            changed = fit_ranks(name, (*overrides, *changes), num_ranks=count, command=command)
            resolve(changed.loaded, num_ranks=count, tokenizer_size=tokenizer_size)
            yield _command(command, name, overrides, changes, count)


def _one_step(command: Sequence[str], fitted: Fitted, overrides: Sequence[str], advice: str | None) -> tuple[str, ...]:
    """The advice as a command, where nothing alone makes the recipe pass: it is refused for another reason then."""
    name = fitted.loaded.name
    return tuple(_command(command, name, overrides, words, fitted.num_ranks) for words in _overrides_in(advice))


def _overrides_in(advice: str | None) -> list[list[str]]:
    """The advice as overrides, where it begins with such."""
    words = (advice or "").split(", or ")[0].split()
    return [words] if words and all(word.partition("=")[2] not in ("", "...") for word in words) else []


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


def _command(
    command: Sequence[str], name: str, overrides: Sequence[str], changes: Sequence[str], num_ranks: int
) -> str:
    """The command that the person typed, with other values or another number of ranks."""
    changed = {change.partition("=")[0] for change in changes}
    kept = [f"{key}={text}" for key, text in split_overrides(overrides) if key.replace("-", "_") not in changed]
    return shlex.join([*command, name, *kept, *changes, "--ranks", str(num_ranks)])
