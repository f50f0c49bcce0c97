"""How a rank left the order of calls, by whole stacks in the dumps alone: no text of the program is at hand."""

from pathlib import Path
from typing import Any

import pytest
from unit.sources.dump_samples import dump, entry, write
from unit.sources.test_dumps_rules import WORLD, verdict

from emberward.findings import Cause

Way = tuple[str, ...]
BATCH: Way = ("train:20",)
BACKWARD: Way = ("one_epoch:31", "train:22")
REDUCE: Way = ("helper:8", "train:24")


def call(number: int, way: Way, op: str, size: int, *, done: bool = True) -> dict[str, Any]:
    made = entry(number, number, op=op, size=size, done=done)
    frames = [(name, int(line)) for name, line in (part.split(":") for part in way)]
    own = [{"name": name, "filename": "/job/train.py", "line": line} for name, line in frames]
    return {**made, "frames": [made["frames"][0], *own]}


ROUND = ((BATCH, "broadcast", 64), (BACKWARD, "all_reduce", 8), (REDUCE, "all_reduce", 2))
USUAL = ROUND * 4


@pytest.mark.parametrize(
    ("odd", "cause"),
    [
        # Behind all of the turn, a call that nobody else makes, also through a function that all use elsewhere.
        ([*USUAL, (("log:50", "train:26"), "all_reduce", 4)], Cause.EXTRA_COLLECTIVE),
        ([*USUAL, (("helper:8", "train:26"), "all_reduce", 2)], Cause.EXTRA_COLLECTIVE),
        # The innermost function in a further turn: the call once more.
        ([*USUAL, (REDUCE, "all_reduce", 2)], Cause.EXTRA_COLLECTIVE),
        # Below the line of the call that the others are in.
        ([*USUAL, (BACKWARD, "all_reduce", 8)], Cause.SKIPPED_COLLECTIVE),
        # Of the size and type of the call that the others make: one tensor, exchanged in another way.
        ([*USUAL, (("train:26",), "all_gather", 64)], Cause.DIFFERENT_OP),
    ],
)
def test_stacks_in_the_dumps_tell_left_out_from_one_more(
    tmp_path: Path, odd: list[tuple[Way, str, int]], cause: Cause
) -> None:
    """The others have gone on to the next turn's first call, as in a loop over steps."""
    peers = [*USUAL, ROUND[0]]
    dumps = {}
    for rank in range(4):
        rows = [call(n, *row, done=n < len(peers)) for n, row in enumerate(odd if rank == 1 else peers, start=1)]
        dumps[rank] = dump(rows, WORLD, status={0: (13, 12)})
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.culprit_ranks, finding.cause) == ((1,), cause)


def test_a_function_left_while_the_others_are_in_its_next_turn_is_a_call_left_out(tmp_path: Path) -> None:
    peers = [(BACKWARD, "all_reduce", 8)] * 6
    dumps = {}
    for rank in range(4):
        made = [*peers[:5], (("train:25",), "all_gather", 1)] if rank == 2 else peers
        rows = [call(n, *row, done=n < 6) for n, row in enumerate(made, start=1)]
        dumps[rank] = dump(rows, WORLD, status={0: (6, 5)})
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.culprit_ranks, finding.cause) == ((2,), Cause.SKIPPED_COLLECTIVE)


@pytest.mark.parametrize("folders", [("a", "b"), ("b", "a")])
def test_whose_dump_is_read_first_does_not_matter(tmp_path: Path, folders: tuple[str, str]) -> None:
    """Each order of the folders: what is like the first dump that was read is not compared with it again."""
    dumps = {}
    for rank in range(4):
        rows = [call(n, *row, done=n < 13) for n, row in enumerate([*USUAL, ROUND[rank == 3]], start=1)]
        dumps[rank] = dump(rows, WORLD, status={0: (13, 12)})
    write(tmp_path / folders[0], {3: dumps.pop(3)})
    write(tmp_path / folders[1], dumps)
    finding = verdict(tmp_path)
    assert (finding.code, finding.culprit_ranks) == ("M101", (3,))
