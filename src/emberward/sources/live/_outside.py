"""Samples of ranks that run already, taken from outside: nothing enters the process, which is never stopped.

[Note: what is seen from outside]
``py-spy record --nonblocking`` reads the stacks of a process about 50 times a second without holding it. It tells
lines and no instructions, so that a call is known where its line has one alone; no processor time, so that only calls
count that are no work whatever the processor does; and no moment, so that what is seen is spread evenly over the steps:
a read in every tenth step looks like one in each. Steps are told by the ring alone, where the recorder is in the
process.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emberward.events import Owner, owner_of
from emberward.processes import ProcessTree
from emberward.sources.live._find import FoundRank
from emberward.sources.live._spy import find_spy

RATE = 50
"""Looks a second. py-spy's own default is 100."""
GRACE_S = 30.0
"""How much longer than asked for py-spy may take, to find the interpreter in a large process."""
MAX_LINES = 100_000
_FRAME = re.compile(r"(.+) \((.+):(\d+)\)")

Line = tuple[str, str, int]
"""A frame: file, function, line."""


def record_stacks(ranks: Sequence[FoundRank], seconds: int) -> dict[int, dict[tuple[Line, ...], int] | str]:
    """By rank how often each stack of its main thread was seen, outermost first, or why there is none.

    Blocks for `seconds`, and up to GRACE_S longer.
    """
    spy = find_spy()
    if spy is None:
        return {rank.rank: "py-spy is not installed" for rank in ranks}
    with tempfile.TemporaryDirectory() as folder, ProcessTree() as tree, ThreadPoolExecutor(len(ranks) or 1) as pool:

        def one(rank: FoundRank) -> dict[tuple[Line, ...], int] | str:
            path = Path(folder, str(rank.rank))
            words = ["record", "--nonblocking", "--idle", "--full-filenames", "--threads", "--format", "raw"]
            times = ["--rate", str(RATE), "--duration", str(seconds), "--output", str(path), "--pid", str(rank.pid)]
            done = tree.run([spy, *words, *times], environment=None, timeout_s=seconds + GRACE_S)
            if done.code != 0 or not path.exists():
                last = done.errors.decode(errors="replace").strip().splitlines()[-1:]
                return " ".join(last)[:200] or "py-spy did not end"
            with path.open(encoding="utf-8", errors="replace") as file:
                return stacks_of(line for _, line in zip(range(MAX_LINES), file, strict=False))

        return dict(zip((rank.rank for rank in ranks), pool.map(one, ranks), strict=True))


def stacks_of(lines: Iterable[str]) -> dict[tuple[Line, ...], int]:
    """How often each stack of the main thread was seen, from py-spy's raw format: ``thread;frame;frame count``.

    In a program without the module ``threading`` no thread has a name: then there is one.
    """
    found: dict[bool, Counter[tuple[Line, ...]]] = {True: Counter(), False: Counter()}
    for line in lines:
        text, _, count = line.rstrip("\n").rpartition(" ")
        thread, *frames = text.split(";")
        is_main = thread.endswith(": MainThread")
        if not frames or not count.isdigit() or not (is_main or thread.endswith(")")):
            continue
        known = [each for each in map(_FRAME.fullmatch, frames) if each is not None]
        found[is_main][tuple((each[2], each[1].rpartition(".")[2], int(each[3])) for each in known)] += int(count)
    return dict(found[True] or found[False])


def owner_of_line(file: str) -> str:
    """Whose a file is, as the samples write it."""
    return Owner.PLATFORM.value if file.startswith("<") else owner_of(file).value
