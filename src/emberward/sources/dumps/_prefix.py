"""Takes apart what several ranks wrote into one text, each line behind a mark: ``[rank3]:``, ``[default3]:``, ``3: ``.

Times and Kubernetes' pods before each line are taken off too, where a block of lines must be read together.

Sources of the marks: torch's exception hook (torch/distributed/c10d_logger.py), torchrun's tee
(torch/distributed/elastic/multiprocessing/tail_log.py), ``srun --label``, ``mpirun --tag-output``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MIN_SHARE = 0.8
"""Least share of the lines that must carry a launcher's mark."""

_RANK = re.compile(r"^.{0,80}?\[rank(\d{1,6})\]:? ?", re.IGNORECASE)
_STAMP = re.compile(r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\]? ")
_POD = re.compile(r"^\[(pod/[^\]\s]+)\] ")
_LAUNCHERS = (
    re.compile(r"^\[[A-Za-z_]+(\d{1,6})\]: ?"),
    re.compile(r"^ {0,6}(\d{1,6}): ?"),
    re.compile(r"^\[\d+,(\d{1,6})\]<std\w+>: ?"),
)
_OTHER_RANK = re.compile(r"\[rank(\d{1,6})\]|\bRank (\d{1,6})\]")
_BLOCK = ("Traceback (most", 'File "', "(most recent call first)", "Thread 0x", ") at ")
_ELASTIC = "torch.distributed.elastic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The lines of one writer. `rank` is None where the mark tells a task or a local rank and not a rank."""

    rank: int | None
    text: str
    numbers: tuple[int, ...]


def streams(text: str, numbers: Sequence[int] | None = None) -> list[Stream]:
    """The text of each writer, in the order of first lines; one stream with the whole text when no line is marked."""
    lines = text.splitlines()
    known = tuple(numbers) if numbers is not None else tuple(range(1, len(lines) + 1))
    whole = [Stream(rank=None, text=text, numbers=known)]
    filled = [line for line in lines if line.strip()]
    if _is_on_most(_STAMP, filled) and any(word in line for line in filled for word in _BLOCK):
        return streams("\n".join(_STAMP.sub("", line) for line in lines), known)
    if _is_on_most(_POD, filled):
        return _taken_apart(lines, known, _POD, is_rank=False)
    for mark in _LAUNCHERS:
        if _is_on_most(mark, filled) and _is_label([m.group(1) for line in filled if (m := mark.match(line))]):
            return _taken_apart(lines, known, mark, is_rank=_tells_ranks(lines, mark))
    marked = [line for line in filled if _RANK.match(line)]
    if any(word in line for line in marked for word in _BLOCK):
        return _taken_apart(lines, known, _RANK, is_rank=True)
    return whole


def _is_on_most(mark: re.Pattern[str], filled: list[str]) -> bool:
    return bool(filled) and sum(mark.match(line) is not None for line in filled) >= MIN_SHARE * len(filled)


def _is_label(found: list[str]) -> bool:
    """Whether the numbers are labels, and no line numbers: those differ on every line."""
    return len(set(found)) * 2 <= len(found)


def _tells_ranks(lines: list[str], mark: re.Pattern[str]) -> bool:
    """Whether a launcher's mark is the rank: not when a line tells another one, nor when launchers write behind it."""
    for line in lines:
        found = mark.match(line)
        if found is None:
            continue
        rest = line[found.end() :]
        other = _OTHER_RANK.search(rest)
        if other is not None and int(next(g for g in other.groups() if g is not None)) != int(found.group(1)):
            return False
        if _ELASTIC in rest:
            return False
    return True


def _taken_apart(lines: list[str], numbers: tuple[int, ...], mark: re.Pattern[str], *, is_rank: bool) -> list[Stream]:
    kept: dict[str | None, list[tuple[int, str]]] = {}
    for number, line in zip(numbers, lines, strict=False):
        found = mark.match(line)
        key = None if found is None else found.group(1)
        kept.setdefault(key, []).append((number, line if found is None else line[found.end() :]))
    out: list[Stream] = []
    for key, rows in kept.items():
        text = "\n".join(line for _, line in rows)
        own = tuple(number for number, _ in rows)
        if key is None or is_rank:
            out.append(Stream(rank=None if key is None else int(key), text=text, numbers=own))
        else:
            # Below a task's label the ranks may still mark their own lines.
            out += streams(text, own)
    return out
