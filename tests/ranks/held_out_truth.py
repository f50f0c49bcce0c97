"""What is true of each program, by its own first line.

``#: n=8 ranks=5 cause=lock tier=error``: ``|`` stands between answers that are equally right, ``*`` where nobody is
guilty alone. ``#: LINE`` stands at the lines that a person should be pointed at. A program prints FREEZE and the time
just before its fault. ``tier=error``: it cannot go on by itself; ``notice``: it may, so that an error would be a false
alarm. ``ok``: it only looks like a fault, and has to end with exit code 0 and without an error.
"""

from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "held_out"


@dataclass(frozen=True)
class Truth:
    """What the first line of a program says. `number`: of the set of one author that it belongs to."""

    num_ranks: int
    number: int
    is_healthy: bool
    ranks: tuple[str, ...]
    causes: tuple[str, ...]
    is_sure: bool
    lines: tuple[int, ...]


def truth_of(program: Path) -> Truth:
    """Reads the program's first line and its marks."""
    text = program.read_text().splitlines()
    words = dict(word.partition("=")[::2] for word in text[0].removeprefix("#:").split())
    return Truth(
        num_ranks=int(words["n"]),
        number=int(words.get("set", "1")),
        is_healthy="ok" in words,
        ranks=tuple(words.get("ranks", "").split("|")),
        causes=tuple(words.get("cause", "").split("|")),
        is_sure=words.get("tier") == "error",
        lines=tuple(number for number, line in enumerate(text, 1) if "#: LINE" in line),
    )
