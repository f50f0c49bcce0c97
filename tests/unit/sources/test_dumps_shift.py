"""Calls of one size that meet one place apart, by their lines; and programs whose ranks rightly take other lines."""

from dataclasses import replace
from pathlib import Path

import pytest
from unit.sources.test_dumps_rings import ALL_REDUCE, WORLD

from emberward.findings import Cause, Certainty, Severity
from emberward.sources.dumps import explain_paths
from emberward.sources.ring import RingWriter, identity_here, ring_name
from emberward.sources.ring._format import CallFlag


def write_lines(folder: Path, rank: int, lines: list[int], *, num_ranks: int = 3) -> None:
    writer = RingWriter(
        folder / ring_name(rank=rank, pid=100 + rank), identity_here(rank=rank, world_size=num_ranks, local_rank=0)
    )
    group = writer.group(replace(WORLD, ranks=tuple(range(num_ranks))))
    for line in lines:
        site = writer.site("/job/train.py", line, "step")
        writer.done(writer.call(ALL_REDUCE, group, 128, 1, site, CallFlag.BLOCKING), group)
    writer.close()


ROUND = [10, 11]


@pytest.mark.parametrize(
    ("lines", "cause", "line", "text"),
    [
        (
            ROUND * 4 + [11] + ROUND * 5,
            Cause.SKIPPED_COLLECTIVE,
            11,
            "left out the all_reduce of 128 float32 at train.py:10",
        ),
        (
            ROUND * 4 + [30] + ROUND * 5,
            Cause.EXTRA_COLLECTIVE,
            30,
            "made a call too many, all_reduce of 128 float32 at",
        ),
    ],
)
def test_a_call_left_out_in_silence_is_named(
    tmp_path: Path, lines: list[int], cause: Cause, line: int, text: str
) -> None:
    for rank in range(3):
        write_lines(tmp_path, rank, lines if rank == 2 else ROUND * 10)
    finding = explain_paths([tmp_path]).explanations[0].verdict
    assert (finding.code, finding.culprit_ranks, finding.cause) == ("H104", (2,), cause)
    assert finding.message.startswith(f"rank 2 {text}")
    assert finding.message.endswith("since call 9 of world[0,1,2] its calls meet those of its peers 1 place apart")
    assert (finding.site, finding.certainty) == (f"train.py:{line}", Certainty.OBSERVED)
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(
    "lines",
    [
        [20, 21] * 10,
        [20, 11] * 10,
        ROUND * 4 + [40, 41] * 6,
        ROUND * 8 + [11, 10],
        ROUND * 9,
    ],
)
def test_other_lines_by_right_are_no_alarm(tmp_path: Path, lines: list[int]) -> None:
    for rank in range(3):
        write_lines(tmp_path, rank, lines if rank == 0 else ROUND * 10)
    assert all(finding.severity is not Severity.ERROR for finding in explain_paths([tmp_path]).findings)


@pytest.mark.parametrize("odd", [0, 40, 95])
def test_a_call_left_out_in_silence_is_named_among_many_ranks(tmp_path: Path, odd: int) -> None:
    for rank in range(96):
        write_lines(tmp_path, rank, ROUND * 4 + [11] + ROUND * 5 if rank == odd else ROUND * 10, num_ranks=96)
    finding = explain_paths([tmp_path]).explanations[0].verdict
    assert (finding.code, finding.culprit_ranks, finding.cause) == ("H104", (odd,), Cause.SKIPPED_COLLECTIVE)
