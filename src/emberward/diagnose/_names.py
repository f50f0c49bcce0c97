"""Rank and host from a file's name, and what kind of number it is."""

import re
from pathlib import Path

_RANK_WORD = re.compile(r"(?:^|[^a-z0-9])(?:global[_-]?)?rank[_.=-]?(\d{1,6})(?![0-9])", re.IGNORECASE)
_TAIL = re.compile(r"^(?:.*_)?(?P<rank>\d{1,6})$")
_DUMP_TAIL = re.compile(r"^[A-Za-z][A-Za-z_-]*[.=-](\d{1,6})$")
_ATTEMPT = re.compile(r"^attempt_\d+$")
# fmt: off
_SUFFIXES = frozenset(
    {
        ".json", ".pickle", ".pkl", ".txt", ".log", ".out", ".err", ".pyspy", ".stack", ".stacks", ".trace",
        ".dump", ".faulthandler", ".fr", ".bin",
    }
)
# fmt: on


def _stem(name: str) -> str:
    while Path(name).suffix.lower() in _SUFFIXES and Path(name).stem:
        name = Path(name).stem
    return name


def rank_of_name(name: str) -> int | None:
    """The rank in a file's name: ``rank_3``, ``_dump_3``, ``nccl_trace_rank_3``, ``node7_3``, ``json_3.json``.

    A word "rank" wins over a trailing number, which must follow a "_" or stand alone: ``trace-node02`` tells a host, no
    rank. None when the name holds neither.
    Source of the default names: torch/csrc/distributed/c10d/FlightRecorder.hpp 2.13 (prefix + rank), and
    github.com/pytorch/pytorch issue 140879 (host_rank).
    """
    stem = _stem(name)
    word = _RANK_WORD.search(stem)
    if word is not None:
        return int(word.group(1))
    tail = _TAIL.match(stem)
    return None if tail is None else int(tail.group("rank"))


def rank_of_path(path: Path) -> int | None:
    """The rank that a file's name tells, else its folder's: ``rank_3/dump.pickle``, ``attempt_0/3/stderr.log``.

    The second is how torchrun files logs (torch/distributed/elastic/multiprocessing/api.py 2.13): there the number is
    the rank on its node, which on a single node is the rank.
    """
    own = rank_of_name(path.name)
    if own is not None:
        return own
    parent = path.parent.name
    if _ATTEMPT.match(path.parent.parent.name) and parent.isdigit() and len(parent) <= 6:
        return int(parent)
    word = _RANK_WORD.search(parent)
    return None if word is None else int(word.group(1))


def rank_of_log(path: Path) -> int | None:
    """The rank of a log: by the word "rank" or torchrun's folders alone, since other numbers in a log's name are dates
    and jobs."""
    if _RANK_WORD.search(_stem(path.name)) is not None or rank_of_name(path.name) is None:
        return rank_of_path(path)
    return None


def rank_of_dump(path: Path) -> int | None:
    """The rank of a flight-recorder dump: as of any file, or the number behind its last dot or dash."""
    rank = rank_of_path(path)
    if rank is not None:
        return rank
    tail = _DUMP_TAIL.match(_stem(path.name))
    return None if tail is None else int(tail.group(1))


def host_of_name(name: str) -> str | None:
    """The host in a name of the form ``trace-HOST.out`` or ``HOST_RANK``; None for the tools' own prefixes."""
    stem = _stem(name)
    if stem.lower().startswith("trace-"):
        return stem[len("trace-") :] or None
    tail = re.match(r"^(?P<host>[A-Za-z][A-Za-z0-9.-]*[0-9])_(?:rank_?)?\d+$", stem)
    if tail is None or tail.group("host").lower().startswith(("rank", "json", "dump")):
        return None
    return tail.group("host")
