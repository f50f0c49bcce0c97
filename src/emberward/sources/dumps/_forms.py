"""Reads many dumps of one form: what a large job's ranks recorded alike is parsed once.

[Note: dumps of one form]
The ranks of a role make the same calls, so the bytes of their dumps differ in times, in the names and ranks of their
groups, and in the calls that were open at the end. A form is the entries of one dump, with the places of the times in
them. A dump that holds the same bytes at all other places holds the same calls: it shares the form's entries up to the
first that differs, with times of its own, and the rest of it is parsed as any other dump is. A value that a judge reads
and that differs is never shared; nothing is guessed.

What parsing costs decides: of 2,000 calls 5.8 ms as a pickle and 14 ms as JSON, which takes as long again to check and
to free; comparing the bytes takes 0.2 ms and 2 ms (docs/measured/explain_scale.json). A form is learnt from each eighth
dump that fits none, and less often while what was learnt is of no use.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

NUM_LAST = 32
"""Completed entries before the first open one of which a dump of the form may differ: the bulk lies before them."""
MIN_BULK = 256
"""Fewest entries of a bulk, which a dump has to have as a whole to be of the form."""
MAX_FORMS = 32
NUM_UNKNOWN = 8
"""Dumps that fit no form, of which the last becomes one."""


class Form(Protocol):
    """The entries of one dump, which others share. `read`: what the first so many come to, for who reads them."""

    entries: list[dict[str, Any]]
    read: dict[int, Any]

    def formed(self, data: bytes) -> Any:
        """The dump `data` as one of this form, its ``entries`` a `FormedEntries`; None where it is of another one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FormedEntries:
    """A dump's entries: its own first ones, then `num_shared` of `form`, created at `created_ns`, then its own last.

    `samples`: of each ``pg_id`` and thread in the bulk this dump's own first entry, which names the group.
    """

    first: list[Any]
    samples: list[Any]
    last: list[Any]
    form: Form
    num_shared: int
    created_ns: tuple[int, ...]


def num_bulk_of(entries: list[Any]) -> int:
    """How many entries are the bulk: all but the last ones before the first that is open. Negative where few are."""
    return next((i for i, entry in enumerate(entries) if not _is_done(entry)), len(entries)) - NUM_LAST


def _is_done(entry: object) -> bool:
    return isinstance(entry, dict) and (entry.get("retired") is True or entry.get("state") == "completed")


def runs_after(num_bulk: int, num_entries: int) -> list[tuple[int, int]]:
    """The runs of entries behind the bulk, by first and end: the completed ones together, then each by itself."""
    first_open = num_bulk + NUM_LAST
    return [(num_bulk, first_open), *((i, i + 1) for i in range(first_open, num_entries))]


def share(
    load: Callable[[bytes], Any], spliced: bytes, *, form: Form, num_shared: int, created_ns: tuple[int, ...]
) -> Any:
    """The dump in `spliced`, which holds None, the samples and None where the shared entries were; None if it is not.

    `load` parses it.
    """
    try:
        value = load(spliced)
        entries = value["entries"]
        if entries.count(None) != 2:
            return None
        left = entries.index(None)
        right = entries.index(None, left + 1)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    value["entries"] = FormedEntries(
        first=entries[:left],
        samples=entries[left + 1 : right],
        last=entries[right + 1 :],
        form=form,
        num_shared=num_shared,
        created_ns=created_ns,
    )
    return value


class FormReader:
    """Reads dumps, each in full by `load` or by the form that it has. See [Note: dumps of one form].

    `learn` gives the form of a dump from its bytes and entries; None where it has none.
    """

    def __init__(self, load: Callable[[bytes], Any], learn: Callable[[bytes, list[Any]], Form | None]) -> None:
        self._load, self._learn_form = load, learn
        self._forms: list[Form] = []
        self._num_unknown = 0
        self._patience = NUM_UNKNOWN
        self._was_used = True

    def load(self, data: bytes) -> Any:
        """The plain value in `data`; of a dump of a known form ``entries`` is a `FormedEntries`. Raises as `load`."""
        for number, form in enumerate(self._forms):
            value = form.formed(data)
            if value is not None:
                self._was_used = True
                if number:
                    self._forms.insert(0, self._forms.pop(number))
                return value
        value = self._load(data)
        self._num_unknown += 1
        if self._num_unknown >= self._patience:
            self._learn(data, value)
        return value

    def _learn(self, data: bytes, value: Any) -> None:
        entries = value.get("entries") if isinstance(value, dict) else None
        if not isinstance(entries, list) or len(entries) < MIN_BULK:
            return
        self._patience = NUM_UNKNOWN if self._was_used else 2 * self._patience
        self._num_unknown = 0
        form = self._learn_form(data, entries)
        if form is not None:
            self._forms = [form, *self._forms[: MAX_FORMS - 1]]
        self._was_used = False
