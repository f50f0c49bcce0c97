"""Columns of equal length with names: what a notebook gets of a run, with or without pandas."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from emberward.report._markup import Html, join, tag

MAX_SHOWN = 20
MAX_NAMES = 12


class Frame(Mapping[str, list[Any]]):
    """Columns by name, all of one length; a missing value is None. ``pandas.DataFrame(frame)`` takes it as it is."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Raises ValueError for columns of different lengths."""
        self._columns = {name: list(values) for name, values in columns.items()}
        if len({len(values) for values in self._columns.values()}) > 1:
            raise ValueError("the columns of a frame have one length")

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]], names: Sequence[str] | None = None) -> "Frame":
        """A frame of rows; its columns are `names`, or each key in the order in which the rows first have it."""
        keys = list(dict.fromkeys(key for row in rows for key in row)) if names is None else names
        return cls({key: [row.get(key) for row in rows] for key in keys})

    def __getitem__(self, name: str) -> list[Any]:
        """A column."""
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the columns."""
        return iter(self._columns)

    def __len__(self) -> int:
        """The number of columns, as of any mapping; `num_rows` is that of rows."""
        return len(self._columns)

    @property
    def num_rows(self) -> int:
        """The length of each column."""
        return len(next(iter(self._columns.values()), ()))

    def rows(self) -> list[dict[str, Any]]:
        """Each row by the names of the columns."""
        return [dict(zip(self._columns, values, strict=True)) for values in zip(*self._columns.values(), strict=True)]

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``. Raises ImportError where pandas is not installed: Emberward does not bring it."""
        return import_module("pandas").DataFrame(self._columns)

    def __repr__(self) -> str:
        names = list(self._columns)
        left = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        return f"Frame({self.num_rows:,} rows: {', '.join(names[:MAX_NAMES])}{left})"

    def _repr_html_(self) -> Html:
        """The first and last rows as a table, for a notebook."""
        rows, half = [dict(list(row.items())[:MAX_NAMES]) for row in self.rows()], MAX_SHOWN // 2
        shown = rows if len(rows) <= MAX_SHOWN else [*rows[:half], *rows[-half:]]
        body = [tag("tr", *(tag("td", _shown(value)) for value in row.values())) for row in shown]
        head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in list(self._columns)[:MAX_NAMES])))
        said = f"{len(rows):,} rows" + ("" if len(shown) == len(rows) else f", the first and last {half} are shown")
        return join(tag("table", head, tag("tbody", *body)), tag("p", said))


def _shown(value: Any) -> object:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value
