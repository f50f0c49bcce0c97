"""Text that fits a screen: lines broken between words, tables turned on their side, a curve in one line."""

import math
import re
from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 40
MAX_HANG = 20
"""Columns by which what follows a broken line is indented at most."""

_PADDED_MARK = re.compile(r"(?<=\S) {3,}(?=\[)")
"""What puts the bracket at the end of a finding's title into one column, where there is room."""
_WORD = re.compile(r"\s*\S+(?: \\$)?")
_LABEL = re.compile(r"\s*\S+(?: \S+){0,3}\s{2,}(?=\S)")
"""A label and the spaces behind it: what follows a broken line stands below the label's text."""


def fit(text: str, width: int | None) -> str:
    """`text` with each line that is longer than `width` columns broken between words; None leaves it as it is.

    A word is never cut: a path that is longer than the screen stands on a line of its own.
    """
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width))


def _broken(line: str, width: int) -> list[str]:
    line = line if len(line) <= width else _PADDED_MARK.sub("  ", line)
    if len(line) <= width:
        return [line]
    indent = len(line) - len(line.lstrip())
    label = _LABEL.match(line)
    hang = label.end() if label is not None and label.end() <= MAX_HANG else indent + 2
    hang = min(hang, width // 3)
    lines, here = [], ""
    for word in _WORD.findall(line):
        if here.strip() and len(here) + len(word) > width:
            lines.append(here)
            here = " " * hang + word.lstrip()
        else:
            here += word
    return [*lines, here]


def shell_lines(command: str, *, first: int, width: int | None) -> list[str]:
    """A command as lines that can be pasted as they stand: too long a one goes on behind a backslash.

    `first` columns of the screen are taken by what stands before it. Quoted words stay whole.
    """
    room = None if width is None else width - first - 2
    if room is None or len(command) <= room + 2:
        return [command]
    lines, here = [], ""
    for word in re.findall(r"\s*(?:'[^']*'|[^\s'])+", command):
        if here and len(here) + len(word) > room:
            lines.append(here + " \\")
            here = "  " + word.lstrip()
        else:
            here += word
    return [*lines, here]


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> list[str]:
    """Lines of a table, columns aligned to the right except the last, which is aligned to the left.

    Where that is wider than `width`, each column becomes a row; where that is still too wide, each row a block.
    """
    lines = _columns([header, *rows], last_left=True)
    if width is None or max(map(len, lines)) <= width:
        return lines
    turned = _columns([list(column) for column in zip(header, *rows, strict=True)], last_left=False)
    if max(map(len, turned)) <= width:
        return turned
    label = max(map(len, header))
    blocks: list[str] = []
    for row in rows:
        blocks += [f"{name.ljust(label)}  {cell}".rstrip() for name, cell in zip(header, row, strict=True)] + [""]
    return blocks[:-1]


def _columns(rows: Sequence[Sequence[str]], *, last_left: bool) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        if last_left:
            cells[-1] = row[-1]
        else:
            cells[0] = row[0].ljust(widths[0])
        lines.append("  ".join(cells))
    return lines


def left_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> list[str]:
    """Lines of a table of words, columns aligned to the left; a block for each row where it is wider than `width`."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, *rows]:
        lines.append("  ".join(cell.ljust(each) for cell, each in zip(row, widths, strict=True)).rstrip())
    if width is None or max(map(len, lines)) <= width:
        return lines
    blocks: list[str] = []
    for row in rows:
        blocks.append(row[0])
        blocks += [f"  {name}: {cell}" for name, cell in zip(header[1:], row[1:], strict=True) if cell]
    return blocks


def curve_text(values: Sequence[float | None], *, width: int = CURVE_WIDTH) -> str:
    """`values` as bars of eight heights, at most `width` of them, each the mean of its part; a gap for none.

    The lowest mean is the lowest bar, the highest the highest; equal ones are drawn in the middle.
    """
    count = min(width, len(values))
    parts = [values[len(values) * i // count : len(values) * (i + 1) // count] for i in range(count)]
    means = [_mean(part) for part in parts]
    known = [mean for mean in means if mean is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return "".join(" " if mean is None else BARS[_height(mean, low, high)] for mean in means).rstrip()


def _mean(values: Sequence[float | None]) -> float | None:
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return sum(finite) / len(finite) if finite else None


def _height(value: float, low: float, high: float) -> int:
    return len(BARS) // 2 if high == low else round((value - low) / (high - low) * (len(BARS) - 1))
