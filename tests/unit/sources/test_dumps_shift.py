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


LONG_ROUND = [10] * 9 + [11]


@pytest.mark.parametrize(
    ("odd", "usual", "cause", "line"),
    [
        (ROUND * 4 + [11] + ROUND * 5, ROUND * 10, Cause.SKIPPED_COLLECTIVE, 11),
        (ROUND * 4 + [30] + ROUND * 5, ROUND * 10, Cause.EXTRA_COLLECTIVE, 30),
        (ROUND * 4 + [10] + ROUND * 5, ROUND * 10, Cause.SKIPPED_COLLECTIVE, 10),
        (LONG_ROUND * 5 + [10] * 9 + LONG_ROUND * 5, LONG_ROUND * 11, Cause.SKIPPED_COLLECTIVE, 10),
        (LONG_ROUND * 5 + [11] + LONG_ROUND * 5, LONG_ROUND * 10, Cause.EXTRA_COLLECTIVE, 11),
        (ROUND * 400 + [11] + ROUND * 400, ROUND * 801, Cause.SKIPPED_COLLECTIVE, 11),
    ],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_of_two_ranks_the_one_that_left_the_order_of_the_rounds_is_named(
    tmp_path: Path, odd: list[int], usual: list[int], cause: Cause, line: int, rank: int
) -> None:
    write_lines(tmp_path, rank, odd, num_ranks=2)
    write_lines(tmp_path, 1 - rank, usual, num_ranks=2)
    finding = explain_paths([tmp_path]).explanations[0].verdict
    assert (finding.code, finding.culprit_ranks, finding.cause) == ("H104", (rank,), cause)
    assert (finding.site, finding.severity) == (f"train.py:{line}", Severity.ERROR)


def test_of_two_ranks_neither_is_named_where_no_round_tells(tmp_path: Path) -> None:
    write_lines(tmp_path, 0, [10, 11, 12, 13, 14, 15, 16, 17, 18, 19], num_ranks=2)
    write_lines(tmp_path, 1, [10, 11, 12, 13, 15, 16, 17, 18, 19, 20], num_ranks=2)
    finding = explain_paths([tmp_path]).explanations[0].verdict
    assert (finding.code, finding.culprit_ranks, finding.certainty) == ("H104", (), Certainty.OBSERVED)
    assert finding.message == (
        "rank 1 left out the all_reduce of 128 float32 at train.py:14, or rank 0 made it once too often: since call 5 "
        "of world[0,1] their calls meet 1 place apart"
    )


@pytest.mark.parametrize("lines", [ROUND * 9, [20, 11] * 10, ROUND * 4 + [40, 41] * 6, ROUND * 8 + [11, 10]])
def test_two_ranks_that_end_early_or_take_other_lines_are_no_alarm(tmp_path: Path, lines: list[int]) -> None:
    write_lines(tmp_path, 0, ROUND * 10, num_ranks=2)
    write_lines(tmp_path, 1, lines, num_ranks=2)
    assert all("apart" not in finding.message for finding in explain_paths([tmp_path]).findings)
